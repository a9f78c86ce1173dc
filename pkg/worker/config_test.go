package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/worker"
	"github.com/leasehold/leasehold/pkg/workflow"
)

func TestAConfigurationWhoseSettingsDoNotFitIsRefusedByName(t *testing.T) {
	t.Parallel()
	if err := worker.DefaultConfig().Validate(); err != nil {
		t.Fatalf("the defaults are refused: %v", err)
	}
	cases := map[string]struct {
		change func(*worker.Config)
		want   string
	}{
		"no slots":                   {func(c *worker.Config) { c.Slots = 0 }, "Slots"},
		"no queues":                  {func(c *worker.Config) { c.Queues = nil }, "Queues"},
		"no poll":                    {func(c *worker.Config) { c.PollInterval = 0 }, "PollInterval"},
		"negative park":              {func(c *worker.Config) { c.ParkAfter = -1 }, "ParkAfter"},
		"no drain":                   {func(c *worker.Config) { c.DrainTimeout = 0 }, "DrainTimeout"},
		"retry cap below base":       {func(c *worker.Config) { c.RetryCap = c.RetryBase / 2 }, "RetryCap"},
		"no lease":                   {func(c *worker.Config) { c.LeaseTTL = 0 }, "ttl"},
		"two beats to a lease":       {func(c *worker.Config) { c.HeartbeatInterval = c.LeaseTTL / 2 }, "interval"},
		"a beat longer than a pause": {func(c *worker.Config) { c.HeartbeatTimeout = c.HeartbeatInterval + 1 }, "timeout"},
		"a margin without a lease":   {func(c *worker.Config) { c.TrustMargin = c.LeaseTTL }, "margin"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := worker.DefaultConfig()
			c.change(&cfg)
			err := cfg.Validate()
			if !errors.Is(err, protocol.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want one that names %s", err, c.want)
			}
		})
	}
}

func TestAWorkerNeedsWorkflowsWithDistinctNames(t *testing.T) {
	t.Parallel()
	none := func(context.Context, *workflow.Run) (any, error) { return nil, nil }
	cases := map[string][]workflow.Workflow{
		"none":          nil,
		"without names": {workflow.New("", none)},
		"twice":         {workflow.New("a", none), workflow.New("a", none)},
	}
	for name, wfs := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := worker.New(worker.DefaultConfig(), nil, wfs, slog.Default(), worker.Metrics{}); !errors.Is(err, protocol.ErrInvalid) {
				t.Errorf("error is %v, want ErrInvalid", err)
			}
		})
	}
}
