package app

import (
	"strings"
	"testing"

	"github.com/leasehold/leasehold/internal/config"
)

// Nothing here has a database: whatever is judged is judged before one is
// touched.
func TestAMistakeEndsTheProcessWithItsReasonBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	const dsn = "postgres://127.0.0.1:1/nowhere"
	for _, c := range []struct {
		name string
		role config.Role
		args []string
		code int
		want []string
	}{
		{
			name: "valid", role: config.RoleWorker, args: []string{"--check", "--config", configFile(t, dsn)},
			code: ExitOK, want: []string{"configuration of the worker is valid"},
		},
		{
			name: "version", role: config.RoleDispatcher, args: []string{"--version"},
			code: ExitOK, want: []string{"leasehold-dispatcher version "},
		},
		{
			name: "unknown flag", role: config.RoleWorker, args: []string{"--chekc"},
			code: ExitInvalid, want: []string{"leasehold-worker: unknown flag: --chekc"},
		},
		{
			name: "argument", role: config.RoleWorker, args: []string{"start"},
			code: ExitInvalid, want: []string{`unknown command "start"`},
		},
		{
			name: "missing file", role: config.RoleWorker, args: []string{"--config", "nowhere.yaml"},
			code: ExitInvalid, want: []string{"nowhere.yaml: no such file"},
		},
		{
			name: "several mistakes", role: config.RoleWorker, args: []string{"--set", "worker.slots=0", "--set", "log.level=loud"},
			code: ExitInvalid, want: []string{"worker.slots (flag): must be between", "log.level (flag): must be one of", "database.dsn: no connection string for the worker"},
		},
		{
			name: "workflow that is not there", role: config.RoleWorker,
			args: []string{"--config", configFile(t, dsn), "--set", "worker.workflows=plan,agent"},
			code: ExitInvalid, want: []string{`worker.workflows: "agent" is not linked into this program, which has plan`},
		},
		{
			name: "tool of a kind that is not there", role: config.RoleReconciler,
			args: []string{"--config", configFile(t, dsn, "tools: []")},
			code: ExitInvalid, want: []string{"tools", "is defined twice"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := inProcess(t, stock(c.role), c.args...)
			if code := p.exit(t); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(p.log.text(), want) {
					t.Errorf("no %q in:\n%s", want, p.log.text())
				}
			}
		})
	}
}
