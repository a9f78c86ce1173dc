package fieldcases_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// answer is what a command of the operator's tool came to.
type answer struct {
	code        int
	out, errors string
}

// leasehold runs a command of the operator's tool as a process of its own.
// environ comes on top of an environment that has nothing of Leasehold.
func (w *world) leasehold(environ []string, args ...string) answer {
	w.t.Helper()
	cmd := exec.CommandContext(w.ctx, program(w.t, "leasehold"), args...)
	cmd.SysProcAttr = childAttributes()
	cmd.Dir = w.dir // no configuration of a developer's is found there
	cmd.Env = append(outsideEnvironment(), environ...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Errorf("run leasehold %s: %v", strings.Join(args, " "), err)
	}
	return answer{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// asOperator is the environment of a command that reaches the database.
func (w *world) asOperator() []string {
	return []string{"LEASEHOLD_DATABASE_DSN=" + w.db.DSN("operator")}
}

// cancel is `leasehold run cancel`.
func (w *world) cancel(run protocol.RunID) answer {
	w.t.Helper()
	return w.leasehold(w.asOperator(), "run", "cancel", run.String(), "--actor", "test", "--reason", "a field case")
}

// outsideEnvironment is this process's without what a developer has set for a
// Leasehold of their own.
func outsideEnvironment() []string {
	var out []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "LEASEHOLD_") {
			out = append(out, v)
		}
	}
	return out
}
