package cli

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/pkg/tools"
)

func (e *env) configCommand() *cobra.Command {
	return group("config", "Look at the configuration in force", e.configPrint(), e.configValidate())
}

func (e *env) configPrint() *cobra.Command {
	return &cobra.Command{
		Use: "print", Short: "Print every key in force, where it came from, and no secret", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := e.load("")
			if err != nil {
				return err
			}
			settings := cfg.Effective()
			toolsYAML, err := cfg.EffectiveTools()
			if err != nil {
				return err
			}
			if e.output == "json" {
				return e.printJSON(map[string]any{"settings": settings, "tools": toolsYAML})
			}
			rows := make([][]string, 0, len(settings))
			for _, s := range settings {
				rows = append(rows, []string{s.Key, s.Value, string(s.Source), s.Place})
			}
			if err := e.print(settings, []string{"key", "value", "source", "place"}, rows); err != nil {
				return err
			}
			_, err = fmt.Fprint(e.Out, toolsYAML)
			return err
		},
	}
}

func (e *env) configValidate() *cobra.Command {
	return &cobra.Command{
		Use: "validate", Short: "Check the configuration and every tool in it, all mistakes at once", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			registry, err := e.registry()
			if err != nil {
				return err
			}
			e.say("configuration is valid: %d tool(s)", len(registry.Names()))
			return nil
		},
	}
}

// registry builds the configured tools, which checks all there is to check.
func (e *env) registry() (*tools.Registry, error) {
	cfg, err := e.load("")
	if err != nil {
		return nil, err
	}
	registry, err := config.BuildRegistry(cfg, e.program.Tools, tools.Deps{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, usageError{err}
	}
	return registry, nil
}
