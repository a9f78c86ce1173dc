package mcptool_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/mcptool"
)

// stdio is the configuration of a server that is this test binary, and the file
// in which it notes its calls.
func stdio(t *testing.T, mode, more string) (section, calls string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	calls = filepath.Join(t.TempDir(), "calls")
	return fmt.Sprintf("server: {command: %q, args: [%q], env: [{name: %s, value: %q}%s], max_answer: 100000}\n",
		self, calls, asServer, mode, more), calls
}

func count(t *testing.T, calls string) int {
	t.Helper()
	raw, err := os.ReadFile(calls)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(raw), "\n")
}

func TestEachAnswerOverStdioSaysWhatItProvesAndIsAskedForOnce(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		mode string
		want tools.Kind
	}{
		{"good", tools.Succeeded},
		{"exit", tools.Unknown},
		{"garbage", tools.Unknown},
		{"huge", tools.Unknown},
	} {
		t.Run(tc.mode, func(t *testing.T) {
			t.Parallel()
			section, calls := stdio(t, tc.mode, "")
			a := tool(t, mcptool.Factory(), section)
			expect(t, a.Call(within(t), request()), tc.want)
			if n := count(t, calls); n != 1 {
				t.Errorf("the server was called %d times", n)
			}
		})
	}
}

func TestAServerThatExitedIsStartedAgainForTheNextCall(t *testing.T) {
	t.Parallel()
	section, calls := stdio(t, "exit once", "")
	a := tool(t, mcptool.Factory(), section)
	expect(t, a.Call(within(t), request()), tools.Unknown)
	if n := count(t, calls); n != 1 {
		t.Fatalf("%d calls after the first", n)
	}
	expect(t, a.Call(within(t), request()), tools.Succeeded)
	if n := count(t, calls); n != 2 {
		t.Errorf("%d calls after the second", n)
	}
}

func TestALateAnswerIsNeverTakenForAnotherCalls(t *testing.T) {
	t.Parallel()
	section, _ := stdio(t, "late", "")
	a := tool(t, mcptool.Factory(), section+"timeout: 1s\nresult: /for\n")
	expect(t, a.Call(within(t), request()), tools.Unknown)
	o := a.Call(within(t), request())
	expect(t, o, tools.Succeeded)
	if string(o.Result) != `"the second"` {
		t.Errorf("the second call got the answer for %s", o.Result)
	}
}

func TestACommandThatDoesNotStartWasSentNothing(t *testing.T) {
	t.Parallel()
	a := tool(t, mcptool.Factory(), "server: {command: /no/such/command}")
	expect(t, a.Call(within(t), request()), tools.NotSent)
}

func TestToolsWithTheSameServerShareItsSession(t *testing.T) {
	t.Parallel()
	section, calls := stdio(t, "good", "")
	f := mcptool.Factory()
	one, two := tool(t, f, section), tool(t, f, section+"tool: other\n")
	expect(t, one.Call(within(t), request()), tools.Succeeded)
	o := two.Call(within(t), request())
	expect(t, o, tools.Succeeded)
	if n := count(t, calls); n != 2 {
		t.Errorf("%d calls", n)
	}
	if n := count(t, calls+".starts"); n != 1 {
		t.Errorf("the server was started %d times", n)
	}
}

func TestAServerGetsItsOwnEnvironmentAndNotOurs(t *testing.T) {
	t.Setenv("LEASEHOLD_TEST_DATABASE_PASSWORD", "do-not-pass-on")
	t.Setenv("LEASEHOLD_TEST_TOKEN", "s3cr3t-token")
	section, _ := stdio(t, "environment", ", {name: TOKEN, value_env: LEASEHOLD_TEST_TOKEN}")
	a := tool(t, mcptool.Factory(), section)
	o := a.Call(within(t), request())
	expect(t, o, tools.Succeeded)
	got := string(o.Result)
	if strings.Contains(got, "do-not-pass-on") || !strings.Contains(got, "TOKEN=***") || strings.Contains(got, "s3cr3t") {
		t.Errorf("the server's environment: %s", got)
	}
}
