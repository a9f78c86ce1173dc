package quickstart_test

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/pkg/runner"
	"github.com/leasehold/leasehold/pkg/tools"
)

func TestQuickstartConfigurationGivesTheToolsOfTheExamplePlans(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(config.Options{File: "leasehold.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	registry, err := config.BuildRegistry(cfg, runner.Builtins().Tools, tools.Deps{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := registry.Names(), []string{"charge", "notify", "ship"}; !slices.Equal(got, want) {
		t.Errorf("tools are %v, want %v", got, want)
	}
}
