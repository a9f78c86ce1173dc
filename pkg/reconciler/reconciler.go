package reconciler

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/ledgerwriter"
	"github.com/leasehold/leasehold/internal/sending"
	"github.com/leasehold/leasehold/pkg/backoff"
	"github.com/leasehold/leasehold/pkg/tools"
)

// Reconciler converges doubts for one process.
type Reconciler struct {
	cfg   Config
	store Store
	tools *tools.Registry
	hooks Hooks
	log   *slog.Logger

	clock  dbClock
	slots  *sending.Slots
	pauser *sending.Pauser
	writer *ledgerwriter.Writer[conclusion]
	hint   chan struct{}
}

// New checks cfg against the tools and returns a reconciler that has done
// nothing yet.
func New(cfg Config, st Store, reg *tools.Registry, log *slog.Logger, hooks Hooks) (*Reconciler, error) {
	if err := cfg.Validate(reg); err != nil {
		return nil, err
	}
	r := &Reconciler{
		cfg: cfg, store: st, tools: reg, hooks: hooks.orNothing(), log: log,
		slots: sending.NewSlots(reg, cfg.Slots), hint: make(chan struct{}, 1),
	}
	r.pauser = sending.NewPauser(sending.PauserConfig{
		Share:   st.PauseTool,
		Paused:  r.hooks.Paused,
		Backoff: func(n int) time.Duration { return backoff.Delay(cfg.PauseBase, cfg.PauseCap, n) },
		Longest: cfg.PauseLongest,
		Timeout: cfg.StoreTimeout,
		Logger:  log,
	})
	r.writer = ledgerwriter.New(r.writerConfig())
	return r, nil
}

// Hint says that evidence has come by which a doubt may end. It never blocks, and
// one that is lost costs a poll interval.
func (r *Reconciler) Hint() {
	select {
	case r.hint <- struct{}{}:
	default:
	}
}

// Run sweeps and converges until ctx ends, and then drains: nothing is taken up
// any more, calls in flight may end, and what they told is written. It is
// called once. It returns nil, or an error if a call would not end.
func (r *Reconciler) Run(ctx context.Context) error {
	flights := sending.NewFlights(ctx)
	// What follows the calls must outlive the signal that stops the intake.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()

	var helpers sync.WaitGroup
	for _, s := range r.sweeps() {
		helpers.Go(func() { r.run(ctx, s) })
	}
	helpers.Go(func() {
		if err := r.writer.Run(background); err != nil {
			r.log.DebugContext(background, "result writer ended early", "error", err)
		}
	})

	r.intake(flights).Run(ctx)

	err := r.drain(background, flights)
	stop()
	helpers.Wait()
	return err
}

func (r *Reconciler) drain(ctx context.Context, flights *sending.Flights) error {
	r.log.InfoContext(ctx, "reconciler is draining")
	flying := flights.Land(r.cfg.DrainTimeout, r.cfg.DrainGrace)
	for _, c := range r.writer.Drain(r.cfg.FlushTimeout) {
		// Nothing is wrong in the ledger: the doubt is one still, and the next
		// reconciler will ask again.
		r.log.WarnContext(ctx, "conclusion was not written before the stop",
			"operation_id", c.Claim.OperationID, "status", c.Status, "basis", c.Basis)
	}
	if flying > 0 {
		return fmt.Errorf("drain reconciler: %d calls did not end with their context", flying)
	}
	return nil
}
