package dispatcher_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/leasehold/leasehold/internal/ledgertest"
	"github.com/leasehold/leasehold/pkg/dispatcher"
	"github.com/leasehold/leasehold/pkg/tools"
)

func TestAnImpossibleConfigurationIsRefusedByName(t *testing.T) {
	t.Parallel()
	slow := ledgertest.Tool(t, "http://127.0.0.1:1", "slow", unkeyed(), 1, nil)
	for name, tc := range map[string]struct {
		change func(*dispatcher.Config)
		says   string
	}{
		"a margin as long as the claim":            {func(c *dispatcher.Config) { c.Margin = c.ClaimTTL }, "margin"},
		"a claim shorter than a request":           {func(c *dispatcher.Config) { c.ClaimTTL, c.Margin = 2*time.Second, time.Second }, `"slow"`},
		"no time between two polls":                {func(c *dispatcher.Config) { c.Poll = 0 }, "poll interval"},
		"a bigger batch than the ledger gives":     {func(c *dispatcher.Config) { c.ClaimBatch = 101 }, "claim batch"},
		"no room for results":                      {func(c *dispatcher.Config) { c.BacklogBytes = 0 }, "backlog"},
		"a longest pause that is not the longest":  {func(c *dispatcher.Config) { c.PauseLongest = time.Second }, "pauses"},
		"a drain that gives calls no time to stop": {func(c *dispatcher.Config) { c.DrainGrace = 0 }, "drain grace"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := dispatcher.DefaultConfig()
			tc.change(&cfg)
			_, err := dispatcher.New(cfg, nil, ledgertest.Registry(t, slow), slog.New(slog.DiscardHandler), dispatcher.Hooks{})
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v does not name %s", err, tc.says)
			}
		})
	}
	// A fresh installation has no tools yet: it idles, and says so.
	var none []tools.Tool
	if err := dispatcher.DefaultConfig().Validate(ledgertest.Registry(t, none...)); err != nil {
		t.Errorf("a dispatcher without tools: %v", err)
	}
	if err := dispatcher.DefaultConfig().Validate(ledgertest.Registry(t, slow)); err != nil {
		t.Errorf("the defaults: %v", err)
	}
}
