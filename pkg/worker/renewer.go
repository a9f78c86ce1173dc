package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
)

const (
	// renewBatch bounds one renewal call.
	renewBatch = 100
	// renewGather lets the beats of one tick come together.
	renewGather = 5 * time.Millisecond
)

// renewer renews the leases of all sessions in few calls. When one session's
// beat is due, every lease that is past half of its interval is renewed with
// it and counts from the same moment: the beats fall into one tick by
// themselves, and a worker with 300 runs makes three calls an interval.
type renewer struct {
	store   Store
	timing  protocol.LeaseTiming
	metrics Metrics
	asked   chan struct{}

	mu      sync.Mutex // guards members and their asks
	members map[protocol.Lease]*member
}

// member is one session's lease.
type member struct {
	lease protocol.Lease
	trust *protocol.Trust
	// ask, if not nil, is where its heartbeat waits for an answer.
	ask chan error
}

func newRenewer(st Store, timing protocol.LeaseTiming, metrics Metrics) *renewer {
	return &renewer{
		store:   st,
		timing:  timing,
		metrics: metrics,
		asked:   make(chan struct{}, 1),
		members: make(map[protocol.Lease]*member),
	}
}

func (r *renewer) add(lease protocol.Lease, trust *protocol.Trust) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.members[lease] = &member{lease: lease, trust: trust}
}

func (r *renewer) remove(lease protocol.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.members, lease)
}

// renew renews one lease with whatever else is due, and returns the answer
// about it. It is what a heartbeat calls.
func (r *renewer) renew(ctx context.Context, lease protocol.Lease) error {
	ask := make(chan error, 1)
	r.mu.Lock()
	m, ok := r.members[lease]
	if ok {
		m.ask = ask
	}
	r.mu.Unlock()
	if !ok {
		return fmt.Errorf("renew lease of run %s: not a member", lease.RunID)
	}
	signal(r.asked)
	select {
	case err := <-ask:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *renewer) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.asked:
		}
		if !sleep(ctx, renewGather) {
			return
		}
		due := r.due()
		for len(due) > 0 {
			n := min(len(due), renewBatch)
			r.flush(ctx, due[:n])
			due = due[n:]
		}
	}
}

// due takes the asks and adds what would be asked soon.
func (r *renewer) due() []member {
	r.mu.Lock()
	defer r.mu.Unlock()
	soon := r.timing.TTL - r.timing.Margin - r.timing.Interval/2
	var out []member
	for _, m := range r.members {
		if m.ask != nil || m.trust.Left() < soon {
			out = append(out, *m)
			m.ask = nil
		}
	}
	return out
}

func (r *renewer) flush(ctx context.Context, due []member) {
	leases := make([]protocol.Lease, len(due))
	for i, m := range due {
		leases[i] = m.lease
	}
	began := protocol.Now()
	call, cancel := context.WithTimeout(ctx, r.timing.Timeout)
	outcomes, err := r.store.RenewLeases(call, leases, r.timing.TTL)
	cancel()
	answers := make(map[protocol.Lease]store.RenewOutcome, len(outcomes))
	for _, o := range outcomes {
		answers[o.Lease] = o
		r.metrics.LockWait(o.LockWait)
	}
	for _, m := range due {
		answer, ok := answers[m.lease]
		switch {
		case err != nil:
			answer.Err = fmt.Errorf("renew leases: %w", err)
		case !ok:
			answer.Err = fmt.Errorf("renew leases: no answer for run %s: %w", m.lease.RunID, protocol.ErrOutcomeUnknown)
		case answer.Err == nil:
			m.trust.Extend(began, r.timing.TTL)
		}
		if m.ask != nil {
			m.ask <- answer.Err
			continue
		}
		// Nobody waits for this answer. If it was a no, the session's own beat
		// asks when it is due and is told then.
		if answer.Err == nil {
			r.metrics.LeaseRenewed("success")
		}
	}
}
