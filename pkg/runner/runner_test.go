package runner_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/leasehold/leasehold/pkg/runner"
)

// asProcess makes this test binary be the stock process that it names.
const asProcess = "LEASEHOLD_TEST_PROCESS"

func TestMain(m *testing.M) {
	switch os.Getenv(asProcess) {
	case "worker":
		os.Exit(runner.Worker(runner.Builtins()))
	case "dispatcher":
		os.Exit(runner.Dispatcher(runner.Builtins()))
	case "reconciler":
		os.Exit(runner.Reconciler(runner.Builtins()))
	}
	os.Exit(m.Run())
}

func TestTheStockProcessesJudgeAConfigurationByWhatIsLinkedIn(t *testing.T) {
	t.Parallel()
	tool := t.TempDir() + "/leasehold.yaml"
	content := "tools: [{name: hook, kind: http, config: {url: 'https://example.com/hook'}}]\n"
	if err := os.WriteFile(tool, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	const example = "../../config.example.yaml"
	for _, c := range []struct {
		name string
		role string
		args []string
		code int
		want string
	}{
		{"worker, example", "worker", []string{"--config", example}, 0, "is valid"},
		{"worker, plan and http", "worker", []string{"--config", tool, "--set", "worker.workflows=plan"}, 0, "is valid"},
		{"dispatcher, http", "dispatcher", []string{"--config", tool}, 0, "is valid"},
		{"reconciler, example", "reconciler", []string{"--config", example}, 0, "is valid"},
		{"worker, unknown workflow", "worker", []string{"--set", "worker.workflows=agent"}, 2, "has plan"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			args := append([]string{"--check", "--set", "database.dsn=postgres://db/leasehold"}, c.args...)
			cmd := exec.CommandContext(t.Context(), exe, args...)
			cmd.Env = []string{asProcess + "=" + c.role}
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.want) {
				t.Errorf("exit code %d, want %d with %q:\n%s", code, c.code, c.want, out)
			}
		})
	}
}
