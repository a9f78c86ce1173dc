package cli

import (
	"github.com/spf13/cobra"

	"github.com/leasehold/leasehold/internal/app"
)

func (e *env) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print which build this is", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			b := app.Build("")
			return e.print(map[string]string{"version": b.Version, "go": b.GoVersion}, nil, [][]string{{b.Version, b.GoVersion}})
		},
	}
}
