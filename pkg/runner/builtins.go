package runner

import (
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/exectool"
	"github.com/leasehold/leasehold/pkg/tools/httptool"
	"github.com/leasehold/leasehold/pkg/tools/mcptool"
	"github.com/leasehold/leasehold/pkg/tools/sqltool"
	"github.com/leasehold/leasehold/pkg/workflow"
	"github.com/leasehold/leasehold/pkg/workflow/plan"
)

// Builtins is the Program of the stock processes: the plan workflow, which
// executes a list of tool calls without a line of Go, and the adapters that
// come with Leasehold.
func Builtins() Program {
	return Program{
		Workflows: []workflow.Workflow{plan.New()},
		Tools:     []tools.Factory{httptool.Factory(), exectool.Factory(), sqltool.Factory(), mcptool.Factory()},
	}
}
