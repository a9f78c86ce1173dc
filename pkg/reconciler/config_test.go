package reconciler_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/leasehold/leasehold/internal/ledgertest"
	"github.com/leasehold/leasehold/pkg/reconciler"
	"github.com/leasehold/leasehold/pkg/tools"
)

func TestAnImpossibleConfigurationIsRefusedByName(t *testing.T) {
	t.Parallel()
	slow := ledgertest.Tool(t, "http://127.0.0.1:1", "slow", tools.Capabilities{Class: tools.ClassNone, MaxRequestMS: 2000}, 1, nil)
	for name, tc := range map[string]struct {
		change func(*reconciler.Config)
		says   string
	}{
		"a margin as long as the claim":       {func(c *reconciler.Config) { c.Margin = c.ClaimTTL }, "margin"},
		"a grant shorter than a request":      {func(c *reconciler.Config) { c.ClaimTTL, c.Margin = 2*time.Second, time.Second }, `"slow"`},
		"a back-off that shrinks":             {func(c *reconciler.Config) { c.RetryCap = c.RetryBase / 2 }, "retry"},
		"no time between two passes":          {func(c *reconciler.Config) { c.SweepEvery = 0 }, "sweep interval"},
		"more in a sweep than the ledger has": {func(c *reconciler.Config) { c.SweepLimit = 101 }, "sweep limit"},
		"no watch over silent clients":        {func(c *reconciler.Config) { c.StuckAfter = 0 }, "stuck limit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := reconciler.DefaultConfig()
			tc.change(&cfg)
			_, err := reconciler.New(cfg, nil, ledgertest.Registry(t, slow), slog.New(slog.DiscardHandler), reconciler.Hooks{})
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v does not name %s", err, tc.says)
			}
		})
	}
	if err := reconciler.DefaultConfig().Validate(ledgertest.Registry(t)); err != nil {
		t.Errorf("the defaults, without tools: %v", err)
	}
}
