package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/pkg/backoff"
	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/pkg/workflow"
)

// errParked ends the execution of a run that was parked.
var errParked = errors.New("run is parked")

// session is one run in this worker, from its acquisition to the end of what
// this worker has to do with it. Its context is the lease: it ends when the
// lease is lost or cannot be confirmed, when the run was parked and when the
// drain runs out of time, with that as its cause.
type session struct {
	cfg     Config
	store   Store
	renewer *renewer
	waiter  *waiter
	wf      workflow.Workflow
	log     *slog.Logger
	metrics Metrics

	lease    protocol.Lease
	acquired store.Acquired
	// began is when the call that acquired the lease began.
	began protocol.Instant
	trust *protocol.Trust

	ctx      context.Context
	cancel   context.CancelCauseFunc
	life     context.Context // the worker's; when it ends, nothing is written any more
	draining context.Context
	done     chan struct{} // closed when the session is over

	// revision is the run's revision as this session last knew it. It is
	// written by the session alone, and read for logs.
	revision atomic.Int64
	// ending is set while a write is under way that gives the lease up. A
	// renewal that is refused meanwhile says nothing: it may have come after
	// our own write.
	ending atomic.Bool
	// unsure is set when a write's outcome stayed unknown. A run in that state
	// is not handed back: its lease runs out.
	unsure bool
	// progressed is set with the first accepted write that is a step forward.
	progressed bool
}

func newSession(w *Worker, life, draining context.Context, log *slog.Logger, a store.Acquired, began protocol.Instant) *session {
	s := &session{
		cfg: w.cfg, store: w.store, renewer: w.renewer, waiter: w.waiter,
		wf: w.workflows[a.Workflow], log: log, metrics: w.metrics,
		lease: a.Lease, acquired: a, began: began,
		trust: protocol.NewTrust(w.cfg.TrustMargin),
		life:  life, draining: draining,
		done: make(chan struct{}),
	}
	s.trust.Extend(began, w.cfg.LeaseTTL)
	s.revision.Store(int64(a.Revision))
	s.ctx, s.cancel = context.WithCancelCause(life)
	return s
}

// run executes the run and writes what it comes to.
func (s *session) run() {
	s.renewer.add(s.lease, s.trust)
	beat := make(chan struct{})
	go func() {
		defer close(beat)
		s.heartbeat()
	}()
	err := s.finish(s.execute())
	s.cancel(nil)
	<-beat
	s.renewer.remove(s.lease)
	if err != nil {
		s.over(err)
	}
}

func (s *session) execute() workflow.Outcome {
	if s.draining.Err() != nil {
		return workflow.Outcome{Kind: workflow.Over, Err: errDrained}
	}
	state, err := s.read()
	if err != nil {
		return workflow.Outcome{Kind: workflow.Over, Err: err}
	}
	s.revision.Store(int64(state.Revision))
	return workflow.Execute(s.ctx, s.wf, stateOf(state), s)
}

// read reads the run, as often as it takes while the lease lasts.
func (s *session) read() (store.RunState, error) {
	for try := 1; ; try++ {
		call, cancel := context.WithTimeout(s.ctx, s.cfg.LeaseTTL)
		state, err := s.store.ReadRun(call, s.lease)
		cancel()
		switch {
		case err == nil:
			return state, nil
		case s.ctx.Err() != nil:
			return store.RunState{}, context.Cause(s.ctx)
		case definite(err):
			s.log.Warn("read of a run refused", "revision", s.revision.Load(), "reason", reasonOf(err), "error", err)
			return store.RunState{}, err
		}
		s.log.WarnContext(s.ctx, "run not read", "error", err)
		s.pause(try)
	}
}

// heartbeat keeps the lease until the session's context ends, and ends it if
// the lease is over.
func (s *session) heartbeat() {
	err := protocol.Heartbeat(s.ctx, s.cancel, protocol.HeartbeatConfig{
		LeaseTiming: s.cfg.timing(),
		Trust:       s.trust,
		Renew: func(ctx context.Context) error {
			return s.renewed(s.renewer.renew(ctx, s.lease))
		},
		Confirm: func(ctx context.Context) error {
			return s.renewed(s.store.ConfirmLease(ctx, s.lease, s.cfg.LeaseTTL))
		},
	})
	if err != nil {
		s.log.Warn("execution cancelled", "revision", s.revision.Load(), "error", err)
	}
}

// renewed looks at the answer to one renewal.
func (s *session) renewed(err error) error {
	switch {
	case err == nil:
		s.metrics.LeaseRenewed("success")
		return nil
	case s.ctx.Err() != nil:
		return err
	case definite(err) && s.ending.Load():
		return errors.New("renewal refused while the lease is being given up")
	case definite(err):
		s.metrics.LeaseRenewed("lost")
		s.log.Warn("lease renewal refused", "revision", s.revision.Load(), "reason", reasonOf(err), "error", err)
		return err
	default:
		s.metrics.LeaseRenewed("unknown")
		s.log.WarnContext(s.ctx, "lease renewal without an answer", "revision", s.revision.Load(), "error", err)
		return err
	}
}

// pause waits before the next try of something, for as long as the lease lasts.
func (s *session) pause(try int) {
	sleep(s.ctx, backoff.Delay(25*time.Millisecond, time.Second, try))
}

// definite reports whether err says that the lease is over for good.
func definite(err error) bool {
	return errors.Is(err, protocol.ErrLeaseLost) || errors.Is(err, protocol.ErrTerminal) || errors.Is(err, protocol.ErrNotFound)
}
