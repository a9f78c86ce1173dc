package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/pkg/runner"
)

// processCommand runs one of the three deployed processes inside this binary:
// `leasehold dev` starts itself once for each, so that they are real processes
// (with real pids to stop and kill) and one file is enough.
func (e *env) processCommand() *cobra.Command {
	return &cobra.Command{
		Use: "process ROLE", Hidden: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("process needs a role")}
			}
			run := map[config.Role]func(runner.Program) int{
				config.RoleWorker: runner.Worker, config.RoleDispatcher: runner.Dispatcher, config.RoleReconciler: runner.Reconciler,
			}[config.Role(args[0])]
			if run == nil {
				return usageError{fmt.Errorf("process %q is not worker, dispatcher or reconciler", args[0])}
			}
			os.Args = args
			os.Exit(run(e.program)) //nolint:forbidigo // this process is that role from here on
			return nil
		},
	}
}
