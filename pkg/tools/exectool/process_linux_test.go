package exectool_test

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/exectool"
)

func inShort(c *exectool.Config) { c.Timeout, c.Grace = 300*time.Millisecond, 300*time.Millisecond }

// gone reports whether the process whose id a script wrote to path has ended.
func gone(t *testing.T, path string) bool {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	// Whoever adopts orphans may not reap them at once.
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func TestACommandThatTakesTooLongIsDoubtAndIsAskedToEndFirst(t *testing.T) {
	t.Parallel()
	asked := inTemp(t, "asked")
	o := call(t, script(t, `trap 'touch `+asked+`; echo {}; exit 0' TERM; echo warned >&2; while :; do sleep 0.05; done`, inShort))
	mustBe(t, o, tools.Unknown)
	if !exists(asked) || !strings.Contains(string(o.Answer), "warned") {
		t.Errorf("it was not asked, or left no evidence: %s", o.Answer)
	}
}

func TestACommandThatIgnoresTheRequestToEndIsKilledWithItsChildren(t *testing.T) {
	t.Parallel()
	pid := inTemp(t, "pid")
	began := time.Now()
	mustBe(t, call(t, script(t, `trap '' TERM; sleep 600 & echo $! >`+pid+`; while :; do wait; done`, inShort)), tools.Unknown)
	if took := time.Since(began); took > limit/2 {
		t.Errorf("it took %s", took)
	}
	until(t, "its child has ended", func() bool { return gone(t, pid) })
}

func TestAChildInTheBackgroundNeitherHoldsTheCallNorOutlivesIt(t *testing.T) {
	t.Parallel()
	pid := inTemp(t, "pid")
	o := call(t, script(t, `sleep 600 & echo $! >`+pid+`; echo '{"id":1}'`, func(c *exectool.Config) { c.Timeout = limit / 2; c.Grace = time.Second }))
	mustBe(t, o, tools.Succeeded)
	until(t, "the child has ended", func() bool { return gone(t, pid) })
}

func TestAChildThatLeftTheGroupDoesNotHoldTheCall(t *testing.T) {
	t.Parallel()
	pid := inTemp(t, "pid")
	began := time.Now()
	o := call(t, script(t, `setsid sleep 600 & echo $! >`+pid+`; until [ "$(cut -d' ' -f5 /proc/$!/stat)" = $! ]; do sleep 0.01; done; echo '{"id":1}'`, nil))
	mustBe(t, o, tools.Succeeded)
	if took := time.Since(began); took > limit/2 {
		t.Errorf("it took %s", took)
	}
	raw, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil {
		_ = syscall.Kill(id, syscall.SIGKILL)
	}
}

func TestACommandThatDoesNotReadALargeRequestDoesNotHoldTheCall(t *testing.T) {
	t.Parallel()
	made := script(t, `echo {}`, nil)
	mustBe(t, made.Call(t.Context(), request(`{"a":"`+strings.Repeat("x", 1<<20)+`"}`)), tools.Succeeded)
}
