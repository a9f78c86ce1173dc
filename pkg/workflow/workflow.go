// Package workflow is what a user of Leasehold writes against: ordinary Go
// over a durable handle.
//
// It promises: a step that is in the run's journal returns its stored result
// and is never executed again; an operation is registered, with its request,
// before anything can be sent for it, and is registered once however often
// the code runs; an execution that lost its lease, was parked or drained
// cannot turn that into an outcome of the run, even if user code swallows the
// error.
//
// It does not promise that code between steps runs once (after a crash, a
// park or a takeover a workflow starts again from its first line, and its
// finished steps answer from the journal), nor that a step's own function
// runs at most once: a worker that dies inside [Do] before the result is
// stored leaves the next one to do it again. An effect on the outside world
// therefore belongs in [Run.Call], not in [Do].
package workflow

import "context"

// Workflow is one kind of run. Run may be executed many times for one run id,
// by different workers, and must take the same steps when their results are
// the same: anything that may differ from one execution to the next (a clock,
// a random number, a model's answer) belongs inside a step.
//
// Run's result is stored as JSON. An error marked with [Fail], or one that
// holds a [CallError], fails the run for good; any other error gives the
// attempt up, to be retried later, until the run's attempts are used up.
type Workflow interface {
	Name() string
	Run(ctx context.Context, run *Run) (any, error)
}

// New returns the workflow of that name made of one function.
func New(name string, fn func(ctx context.Context, run *Run) (any, error)) Workflow {
	return function{name: name, fn: fn}
}

type function struct {
	name string
	fn   func(context.Context, *Run) (any, error)
}

func (f function) Name() string                                   { return f.name }
func (f function) Run(ctx context.Context, run *Run) (any, error) { return f.fn(ctx, run) }
