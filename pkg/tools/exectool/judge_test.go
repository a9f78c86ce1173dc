package exectool_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/exectool"
)

func TestAnExitCodeMeansWhatTheTableSays(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		script     string
		call, asks tools.Kind
	}{
		{"success", `echo '{"id":1}'`, tools.Succeeded, tools.Succeeded},
		{"rejected", `exit 193`, tools.Rejected, tools.Rejected},
		{"rejected with a reason", `echo '"no"'; exit 193`, tools.Rejected, tools.Rejected},
		{"rejected in broken words", `echo '{"rea'; exit 193`, tools.Unknown, tools.Unknown},
		{"not executed", `exit 194`, tools.NotExecuted, tools.Unknown},
		{"in progress", `exit 195`, tools.InProgress, tools.InProgress},
		{"absent", `exit 196`, tools.Unknown, tools.Absent},
		{"key conflict", `exit 197`, tools.KeyConflict, tools.KeyConflict},
		{"unknown", `exit 198`, tools.Unknown, tools.Unknown},
		{"any other", `echo '{}'; exit 1`, tools.Unknown, tools.Unknown},
		{"a command that is not there", `exec /nowhere/at/all`, tools.Unknown, tools.Unknown},
		{"a signal", `kill -9 $$`, tools.Unknown, tools.Unknown},
		{"success without a word", `true`, tools.Unknown, tools.Unknown},
		{"success and half an answer", `echo '{"id":'`, tools.Unknown, tools.Unknown},
		{"success and two answers", `echo '{}'; echo '{}'`, tools.Unknown, tools.Unknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			made := script(t, tt.script, nil)
			mustBe(t, call(t, made), tt.call)
			mustBe(t, ask(t, made), tt.asks)
		})
	}
}

func TestACommandGetsTheOperationAndItsRequestByteForByte(t *testing.T) {
	t.Parallel()
	made := script(t, `cat`, nil)
	req := request(`{"a":"<b>&","n":12345678901234567890.10}`)
	req.RemoteID = "r-1"
	o := made.(tools.Querier).Query(t.Context(), req)
	mustBe(t, o, tools.Succeeded)
	want := fmt.Sprintf(`{"mode":"query","operation_id":%q,"run_id":%q,"step_id":"charge","tool":"test.tool","attempt":1,`+
		`"first_sent_at":null,"digest":%q,"remote_id":"r-1","request":%s}`, req.OperationID, req.RunID, req.Digest, req.Body)
	if string(o.Result) != want {
		t.Errorf("it got\n%s, want\n%s", o.Result, want)
	}
}

func TestACommandInheritsNothingFromTheSender(t *testing.T) {
	t.Setenv("EXECTOOL_TEST_OTHER", "somebody else's")
	t.Setenv("EXECTOOL_TEST_TOKEN", "token-of-this-tool")
	made := script(t, `test "$TOKEN" = token-of-this-tool || exit 1; printf '"%s"' "$(env | cut -d= -f1 | sort | tr '\n' ' ')"`,
		func(c *exectool.Config) {
			c.Env = []exectool.Variable{{Name: "TOKEN", ValueEnv: "EXECTOOL_TEST_TOKEN"}, {Name: "EMPTY"}}
		})
	o := call(t, made)
	mustBe(t, o, tools.Succeeded)
	if got, want := string(o.Result), `"EMPTY LANG PATH PWD TOKEN "`; got != want { // PWD is the shell's own
		t.Errorf("variables %s, want %s", got, want)
	}
}

func TestASecretIsNotKeptWhereverTheCommandWritesIt(t *testing.T) {
	t.Setenv("EXECTOOL_TEST_SECRET", "hunter2hunter2")
	made := script(t, `printf '{"id":"x-%s","said":"%s"}' "$S" "$S"; i=0; while [ $i -lt 600 ]; do echo "$S"; i=$((i+1)); done >&2`,
		func(c *exectool.Config) {
			c.Env, c.RemoteID = []exectool.Variable{{Name: "S", ValueEnv: "EXECTOOL_TEST_SECRET"}}, "/id"
		})
	o := call(t, made)
	mustBe(t, o, tools.Succeeded)
	if o.RemoteID != "x-***" {
		t.Errorf("remote id %q", o.RemoteID)
	}
	// The tail of stderr begins in the middle of one.
	if all := o.Detail + string(o.Result) + string(o.Answer); strings.Contains(all, "ter2") {
		t.Errorf("the secret is in %s", all)
	}
}

func TestALongOutputIsReadToItsEndAndNotKept(t *testing.T) {
	t.Parallel()
	made := script(t, `head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; echo the end >&2`, func(c *exectool.Config) { c.MaxAnswer = 1000 })
	o := call(t, made)
	mustBe(t, o, tools.Succeeded)
	if string(o.Result) != `{"oversized": true, "limit": 1000}` || len(o.Answer) > 64<<10 || !strings.Contains(string(o.Answer), "the end") {
		t.Errorf("result %s, %d bytes of evidence", o.Result, len(o.Answer))
	}
}

func TestACommandThatCannotBeStartedWasNotSent(t *testing.T) {
	t.Parallel()
	dir := inTemp(t, "dir")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	made := script(t, `echo {}`, func(c *exectool.Config) { c.Dir = dir })
	mustBe(t, call(t, made), tools.Succeeded)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	mustBe(t, call(t, made), tools.NotSent)
	mustBe(t, ask(t, made), tools.Unknown)
}

func TestALateCallStartsNothing(t *testing.T) {
	t.Parallel()
	trace := inTemp(t, "started")
	made := script(t, `echo {}; touch `+trace, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	mustBe(t, made.Call(ctx, request(`{}`)), tools.NotSent)
	mustBe(t, made.(tools.Querier).Query(ctx, request(`{}`)), tools.Unknown)
	if exists(trace) {
		t.Error("it was started")
	}
}
