// Package runner makes a program of workflows and tools: the three processes of
// Leasehold, with what you have written linked in.
//
//	func main() { // cmd/dispatcher/main.go of your own module
//		p := runner.Builtins()
//		p.Tools = append(p.Tools, jira.Factory())
//		os.Exit(runner.Dispatcher(p))
//	}
//
// It promises that such a program takes the same configuration, flags, signals
// and exit codes as the stock one. Give all three processes the same Program:
// a worker must know what a tool promises to plan a call of it, and a
// reconciler must be able to ask the tool that a dispatcher has called.
//
// It does not promise to be called twice in one program: it reads the
// arguments and owns the signals.
package runner

import (
	"github.com/leasehold/leasehold/internal/app"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/workflow"
)

// Program is what is linked into the processes.
type Program struct {
	// Workflows are those that a worker can execute.
	Workflows []workflow.Workflow
	// Tools are the kinds of adapter that the `tools` of the configuration may
	// name.
	Tools []tools.Factory
}

// Worker runs a worker until it is told to stop and returns the program's exit
// code.
func Worker(p Program) int { return app.Main(app.Worker(p.Workflows, p.Tools)) }

// Dispatcher runs a dispatcher; see Worker.
func Dispatcher(p Program) int { return app.Main(app.Dispatcher(p.Tools)) }

// Reconciler runs a reconciler; see Worker.
func Reconciler(p Program) int { return app.Main(app.Reconciler(p.Tools)) }
