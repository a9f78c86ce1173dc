package lab

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"

	"github.com/leasehold/leasehold/pkg/protocol"
)

// Answer is what a command of the operator's tool came to.
type Answer struct {
	Code        int
	Out, Errors string
}

// Leasehold runs a command of the operator's tool as a process of its own.
// environ comes on top of an environment that has nothing of Leasehold.
func (w *World) Leasehold(environ []string, args ...string) Answer {
	w.T.Helper()
	cmd := exec.CommandContext(w.Ctx, w.Program("leasehold"), args...)
	cmd.SysProcAttr = childAttributes()
	cmd.Dir = w.dir // no configuration of a developer's is found there
	cmd.Env = append(outsideEnvironment(), environ...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.T.Errorf("run leasehold %s: %v", strings.Join(args, " "), err)
	}
	return Answer{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// AsOperator is the environment of a command that reaches the database.
func (w *World) AsOperator() []string {
	return []string{"LEASEHOLD_DATABASE_DSN=" + w.DB.DSN("operator")}
}

// Cancel is `leasehold run cancel`.
func (w *World) Cancel(run protocol.RunID) Answer {
	w.T.Helper()
	return w.Leasehold(w.AsOperator(), "run", "cancel", run.String(), "--actor", "test", "--reason", "a field case")
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
