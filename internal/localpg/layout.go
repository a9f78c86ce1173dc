package localpg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ErrInUse means that another living program runs a cluster in the directory.
var ErrInUse = errors.New("directory is in use by another program")

// layout is where the files of one cluster are.
type layout struct {
	root      string
	data      string // made by initdb; has postgresql.conf and PG_VERSION
	log       string
	password  string
	temporary bool
	guard     *os.File // locked as long as this program uses the directory
}

// openLayout makes or claims the directory. The lock, unlike a pid file, is gone with the program,
// however it ends.
func openLayout(ctx context.Context, acct account, dir string) (_ layout, err error) {
	l := layout{root: dir, temporary: dir == ""}
	defer func() {
		if err != nil && l.temporary && l.root != "" {
			err = errors.Join(err, os.RemoveAll(l.root))
		}
	}()
	if l.temporary {
		if l.root, err = os.MkdirTemp("", "leasehold-pg-"); err != nil {
			return l, fmt.Errorf("make temporary directory: %w", err)
		}
		// The supervisor removes it as the server's user, so that user must own it.
		err = acct.own(l.root)
	} else {
		err = os.MkdirAll(l.root, 0o755)
	}
	if err != nil {
		return l, fmt.Errorf("make directory %s: %w", l.root, err)
	}
	l.data = filepath.Join(l.root, "data")
	l.log = filepath.Join(l.root, "postgres.log")
	l.password = filepath.Join(l.root, "superuser.password")
	if err := acct.canReach(ctx, l.root); err != nil {
		return l, err
	}
	l.guard, err = os.OpenFile(filepath.Join(l.root, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return l, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(l.guard.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = l.guard.Close()
		return l, fmt.Errorf("%w: %s", ErrInUse, l.root)
	}
	return l, nil
}

// close gives the directory up, and removes it when it was temporary.
func (l layout) close() error {
	err := l.guard.Close()
	if l.temporary {
		err = errors.Join(err, os.RemoveAll(l.root))
	}
	return err
}

// dataMajor is the major version that made the data, or 0 when there is none yet.
func dataMajor(dir string) int {
	content, err := os.ReadFile(filepath.Join(dir, "data", "PG_VERSION"))
	if err != nil {
		return 0
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0
	}
	return major
}

// initialise makes the data directory unless it exists. It works in a neighbour that is renamed at
// the end: a program killed during initdb leaves no half-made cluster for the next start.
func (l layout) initialise(ctx context.Context, acct account, bin Binaries, password string) (string, error) {
	if dataMajor(l.root) != 0 {
		kept, err := os.ReadFile(l.password)
		if err != nil {
			return "", fmt.Errorf("read the password of the kept cluster: %w", err)
		}
		return string(kept), nil
	}
	if password == "" {
		password = rand.Text()
	}
	fresh := l.data + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return "", fmt.Errorf("remove an interrupted attempt: %w", err)
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return "", fmt.Errorf("make data directory: %w", err)
	}
	if err := os.WriteFile(l.password, []byte(password), 0o600); err != nil {
		return "", fmt.Errorf("save password: %w", err)
	}
	if err := os.WriteFile(l.log, nil, 0o600); err != nil {
		return "", fmt.Errorf("make server log: %w", err)
	}
	if err := acct.own(fresh, l.password, l.log); err != nil {
		return "", err
	}
	args := []string{
		"--pgdata", fresh, "--username", Superuser, "--pwfile", l.password,
		"--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C",
	}
	if l.temporary {
		args = append(args, "--no-sync")
	}
	if out, err := acct.command(ctx, filepath.Join(bin.Dir, "initdb"), args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("run initdb: %w: %s", err, strings.TrimSpace(string(out)))
	}
	conf, err := os.OpenFile(filepath.Join(fresh, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return "", fmt.Errorf("open postgresql.conf: %w", err)
	}
	_, err = conf.WriteString("include_if_exists = '" + settingsName + "'\n")
	if err := errors.Join(err, conf.Close()); err != nil {
		return "", fmt.Errorf("extend postgresql.conf: %w", err)
	}
	if err := os.Rename(fresh, l.data); err != nil {
		return "", fmt.Errorf("move data into place: %w", err)
	}
	return password, nil
}

const settingsName = "leasehold.conf"

func (l layout) writeSettings(acct account, settings map[string]string) error {
	path := filepath.Join(l.data, settingsName)
	if err := os.WriteFile(path, settingsFile(settings), 0o600); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	return acct.own(path)
}
