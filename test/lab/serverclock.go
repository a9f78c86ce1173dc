package lab

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// ServerClock is the wall clock of a PostgreSQL server, which a test can step.
//
// The server asks the C library for the time, so a library that is loaded before
// it answers: the true time and an offset that both sides have mapped. Monotonic
// clocks are as they were, as on a machine whose clock is set.
type ServerClock struct {
	library string
	offset  *os.File
}

// NewServerClock builds the library with the C compiler (`cc`). dir must be
// reachable for the server's user.
func NewServerClock(t T, dir string) *ServerClock {
	t.Helper()
	source := filepath.Join(dir, "clock.c")
	c := &ServerClock{library: filepath.Join(dir, "clock.so")}
	if err := os.WriteFile(source, []byte(serverClockSource), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "cc", "-shared", "-fPIC", "-O2", "-o", c.library, source, "-ldl").CombinedOutput()
	if err != nil {
		t.Fatalf("build the server's clock: %v\n%s", err, out)
	}
	name := filepath.Join(dir, "offset")
	if err := os.WriteFile(name, make([]byte, 8), 0o600); err != nil {
		t.Fatal(err)
	}
	// The server's user reads them; its umask is not ours.
	for _, file := range []string{c.library, name} {
		if err := os.Chmod(file, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if c.offset, err = os.OpenFile(name, os.O_WRONLY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.offset.Close() })
	return c
}

// Env is what the server's environment must have.
func (c *ServerClock) Env() []string {
	return []string{"LD_PRELOAD=" + c.library, "LAB_SERVER_CLOCK=" + c.offset.Name()}
}

// Ahead steps the clock: that much ahead of the true time, or behind it.
func (c *ServerClock) Ahead(d time.Duration) error {
	b := binary.NativeEndian.AppendUint64(nil, uint64(d.Microseconds()))
	if _, err := c.offset.WriteAt(b, 0); err != nil {
		return fmt.Errorf("step the server's clock: %w", err)
	}
	return nil
}

// serverClockSource falls back on the true time where the file cannot be mapped:
// a program that the server starts may have another user's rights.
const serverClockSource = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t none = 0;
static volatile const int64_t *offset = &none;
static int (*true_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void map_offset(void) {
	true_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
	const char *name = getenv("LAB_SERVER_CLOCK");
	int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0) return;
	void *at = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
	if (at != MAP_FAILED) offset = at;
	close(fd);
}

int clock_gettime(clockid_t id, struct timespec *t) {
	if (!true_clock_gettime) true_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
	int rc = true_clock_gettime(id, t);
	if (rc == 0 && id == CLOCK_REALTIME) {
		int64_t us = t->tv_sec * INT64_C(1000000) + t->tv_nsec / 1000 + *offset;
		t->tv_nsec = (us % 1000000) * 1000 + t->tv_nsec % 1000;
		t->tv_sec = us / 1000000;
	}
	return rc;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
	(void)zone;
	struct timespec now;
	int rc = clock_gettime(CLOCK_REALTIME, &now);
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return rc;
}

time_t time(time_t *out) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (out) *out = now.tv_sec;
	return now.tv_sec;
}
`
