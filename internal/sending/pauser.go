package sending

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/leasehold/leasehold/pkg/tools"
)

// Pauser stops new calls of tools that cannot be reached or asked to be left
// alone. What is claimed can only become a doubt; what stays prepared can still
// be cancelled, and is sent first-hand once the tool is back.
type Pauser struct {
	cfg PauserConfig

	mu    sync.Mutex
	tools map[string]*trouble // guarded by mu
}

// PauserConfig says how a pauser shares what it learns.
type PauserConfig struct {
	// Share stops all processes from claiming the tool for d.
	Share func(ctx context.Context, tool string, d time.Duration, reason string) error
	// Paused hears of each pause that this process decided.
	Paused func(tool string, d time.Duration)
	// Backoff is the pause after the n-th failure in a row, n from 1.
	Backoff func(n int) time.Duration
	// Longest bounds what a tool may ask for.
	Longest time.Duration
	// Timeout bounds one call of Share.
	Timeout time.Duration
	Logger  *slog.Logger
}

// NewPauser returns a pauser that knows of no trouble.
func NewPauser(cfg PauserConfig) *Pauser {
	return &Pauser{cfg: cfg, tools: make(map[string]*trouble)}
}

// trouble is what is wrong with one tool, as far as this process saw.
type trouble struct {
	// failures counts pauses in a row; it returns to 0 with the first answer.
	failures int
	// since is when the current pause was decided, until when it ends.
	since, until time.Time
}

// Limit says how many calls of the tool may be in flight: none in a pause, one
// after it until that one was answered (the rest of the queue should not have
// to find out too), and all of its slots otherwise.
func (p *Pauser) Limit(tool string, slots int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tools[tool]
	switch {
	case t == nil:
		return slots
	case time.Now().Before(t.until):
		return 0
	}
	return 1
}

// Observe learns from one call that began at the given time. It returns how
// long the operation itself should be left alone.
func (p *Pauser) Observe(ctx context.Context, tool string, v Verdict, began time.Time) time.Duration {
	refused := v.Kind == tools.NotSent || v.Kind == tools.NotExecuted
	switch {
	case v.Local || v.Kind == tools.Unknown:
		// Neither a sign of life nor a proof that calling is useless.
		return v.RetryAfter
	case !refused:
		p.answered(tool)
		return v.RetryAfter
	}
	pause, left := p.refused(tool, v, began, time.Now())
	if pause > 0 {
		p.announce(ctx, tool, pause, v.Detail)
	}
	return max(left, v.RetryAfter)
}

func (p *Pauser) answered(tool string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.tools, tool)
}

// refused returns how long to pause the tool from now on (0: nothing changes)
// and how much of its pause is left.
func (p *Pauser) refused(tool string, v Verdict, began, now time.Time) (pause, left time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tools[tool]
	if t == nil {
		t = &trouble{}
		p.tools[tool] = t
	}
	asked := min(v.RetryAfter, p.cfg.Longest)
	// Thirty calls that were in flight when the tool went away are one failure,
	// not thirty: only a call that began after the last decision counts.
	if t.failures == 0 || !began.Before(t.since) {
		t.failures++
		t.since = now
		asked = max(asked, p.cfg.Backoff(t.failures))
	}
	if until := now.Add(asked); until.After(t.until) {
		t.until = until
		pause = asked
	}
	return pause, max(0, t.until.Sub(now))
}

// announce shares the pause. If that fails the pause holds in this process all
// the same, and others find out for themselves.
func (p *Pauser) announce(ctx context.Context, tool string, d time.Duration, reason string) {
	p.cfg.Paused(tool, d)
	p.cfg.Logger.WarnContext(ctx, "claiming of a tool is paused",
		"tool", tool, "pause", d.String(), "reason", reason)
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.Timeout)
	defer stop()
	if err := p.cfg.Share(ctx, tool, d, reason); err != nil {
		p.cfg.Logger.WarnContext(ctx, "the pause of a tool could not be shared", "tool", tool, "error", err)
	}
}
