package dispatcher

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/ledgerwriter"
	"github.com/leasehold/leasehold/internal/sending"
	"github.com/leasehold/leasehold/pkg/backoff"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/tools"
)

// Dispatcher sends operations for one process.
type Dispatcher struct {
	cfg   Config
	store Store
	tools *tools.Registry
	hooks Hooks
	log   *slog.Logger

	slots  *sending.Slots
	pauser *sending.Pauser
	writer *ledgerwriter.Writer[result]
	hint   chan struct{}
}

// New checks cfg against the tools and returns a dispatcher that has done
// nothing yet.
func New(cfg Config, st Store, reg *tools.Registry, log *slog.Logger, hooks Hooks) (*Dispatcher, error) {
	if err := cfg.Validate(reg); err != nil {
		return nil, err
	}
	d := &Dispatcher{
		cfg: cfg, store: st, tools: reg, hooks: hooks.orNothing(), log: log,
		slots: sending.NewSlots(reg, cfg.Slots),
		hint:  make(chan struct{}, 1),
	}
	d.pauser = sending.NewPauser(sending.PauserConfig{
		Share:   st.PauseTool,
		Paused:  d.hooks.Paused,
		Backoff: func(n int) time.Duration { return backoff.Delay(cfg.PauseBase, cfg.PauseCap, n) },
		Longest: cfg.PauseLongest,
		Timeout: cfg.StoreTimeout,
		Logger:  log,
	})
	d.writer = ledgerwriter.New(d.writerConfig())
	return d, nil
}

// Run claims and sends until ctx ends and then drains: nothing is claimed any
// more, calls in flight may end, and what they told is written. It is called
// once. It returns nil, or an error if a call would not end.
func (d *Dispatcher) Run(ctx context.Context) error {
	flights := sending.NewFlights(ctx)
	if len(d.tools.Names()) == 0 {
		d.log.WarnContext(ctx, "no tools are configured: nothing will be dispatched")
	}
	// What follows the calls must outlive the signal that stops the claiming.
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()

	var helpers sync.WaitGroup
	helpers.Go(func() {
		if err := d.writer.Run(background); err != nil {
			d.log.DebugContext(background, "result writer ended early", "error", err)
		}
	})
	helpers.Go(func() { d.listen(ctx) })

	d.intake(flights).Run(ctx)

	err := d.drain(background, flights)
	stop()
	helpers.Wait()
	return err
}

// listen turns hints into wake-ups. It is a courtesy: without it, or with a
// pooler that does not carry LISTEN, polling finds the same work.
func (d *Dispatcher) listen(ctx context.Context) {
	for failures := 1; ctx.Err() == nil; failures++ {
		err := d.store.Listen(ctx, store.ChannelOperations, func() {
			failures = 0
			select {
			case d.hint <- struct{}{}:
			default:
			}
		})
		if err != nil && ctx.Err() == nil {
			d.log.DebugContext(ctx, "hints about operations are not heard at present", "error", err)
		}
		sending.Sleep(ctx, backoff.Delay(d.cfg.Poll, time.Minute, failures))
	}
}
