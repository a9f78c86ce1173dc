package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/test/chaos/remote"
	"github.com/leasehold/leasehold/test/lab"
)

// storm injects the faults of a schedule.
type storm struct {
	s     *stage
	db    *database
	cast  *cast
	tools map[remote.Endpoint]*lab.Proxy
	svc   *remote.Service

	work sync.WaitGroup

	mu       sync.Mutex // guards all below
	injected map[kind]int
	stepped  []period
}

// period is a time in which the database's clock was off.
type period struct {
	from, to time.Time
	ahead    time.Duration
}

// rage injects the events, each at its time, and returns when the last one has
// ended and every fault is lifted.
func (t *storm) rage(ctx context.Context, list []event) {
	began := time.Now()
	for _, e := range list {
		if !pause(ctx, time.Until(began.Add(e.at))) {
			break
		}
		lift, err := t.inject(ctx, e)
		if err != nil {
			t.s.Errorf("inject %s: %v", e.kind, err)
			break
		}
		t.mu.Lock()
		t.injected[e.kind]++
		t.mu.Unlock()
		if lift == nil {
			continue
		}
		t.work.Go(func() {
			pause(ctx, e.lasts)
			lift()
		})
	}
	t.work.Wait()
}

// pause waits for d, and reports whether ctx lives.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// inject begins one fault. What it returns lifts it; nil if it is over at once.
func (t *storm) inject(ctx context.Context, e event) (lift func(), err error) {
	anyone := t.cast.pick("", e.whom)
	endpoints := remote.Endpoints()
	endpoint := endpoints[int(e.whom)%len(endpoints)]
	path := t.tools[endpoint]
	switch e.kind {
	case killWorker:
		t.cast.pick("worker", e.whom).end((*lab.Process).Kill, e.lasts)
	case killDispatcher:
		t.cast.pick("dispatcher", e.whom).end((*lab.Process).Kill, e.lasts)
	case killReconciler:
		t.cast.pick("reconciler", e.whom).end((*lab.Process).Kill, e.lasts)
	case drainProcess:
		anyone.end((*lab.Process).Terminate, e.lasts)
	case freezeWorker:
		return t.cast.pick("worker", e.whom).freeze(), nil
	case freezeDispatcher:
		return t.cast.pick("dispatcher", e.whom).freeze(), nil
	case freezeReconciler:
		return t.cast.pick("reconciler", e.whom).freeze(), nil
	case freezeClaiming:
		return t.freezeClaiming(ctx, e), nil
	case stepProcess:
		anyone.clock.Ahead(time.Duration((e.much - 0.5) * float64(2*time.Hour)))
		return func() { anyone.clock.Ahead(0) }, nil
	case delayDatabase:
		return delay(anyone.proxy, e), nil
	case resetDatabase:
		anyone.proxy.Reset(nil)
	case silenceDatabase:
		return silence(anyone.proxy), nil
	case muteDatabase:
		return mute(anyone.proxy), nil
	case cutReply:
		// What carries a checkpoint, a plan or a result; not the polls.
		anyone.proxy.CutReplies(1, 400)
	case delayTool:
		return delay(path, e), nil
	case resetTool:
		path.Reset(nil)
	case silenceTool:
		return silence(path), nil
	case cutTool:
		path.CutReplies(1, 0)
	case armRemote:
		faults := remote.Faults(endpoint)
		t.svc.Arm(endpoint, faults[int(e.much*float64(len(faults)))])
	case crashDatabase:
		t.work.Go(func() {
			if err := t.db.crash(ctx); err != nil && ctx.Err() == nil {
				t.s.Errorf("%v", err)
			}
		})
	case stepDatabase:
		return t.stepDatabase(e)
	case endBackends:
		t.endBackends(ctx, e)
	case exhaustPool:
		return t.occupy(ctx), nil
	case holdSnapshot:
		return t.holdSnapshot(ctx), nil
	}
	return nil, nil
}

// freezeClaiming stops a dispatcher that has claimed and has not sent: for a
// while it does not hear the database, so that its claims are made without it.
func (t *storm) freezeClaiming(ctx context.Context, e event) (lift func()) {
	r := t.cast.pick("dispatcher", e.whom)
	r.proxy.Mute()
	pause(ctx, 300*time.Millisecond) // more than it waits between two claims
	thaw := r.freeze()
	r.proxy.Restore()
	return thaw
}

func delay(p *lab.Proxy, e event) (lift func()) {
	p.Delay(time.Duration(5+e.much*150) * time.Millisecond)
	return func() { p.Delay(0) }
}

// silence is a black hole. Nothing that was held arrives after it: how long a
// network may hold a request back is a promise that a tool's max_request makes.
func silence(p *lab.Proxy) (lift func()) {
	p.BlackHole()
	return func() { p.Reset(nil); p.Restore() }
}

// mute has the client heard and not answered.
func mute(p *lab.Proxy) (lift func()) {
	p.Mute()
	return func() { p.Reset(nil); p.Restore() }
}

// stepDatabase sets the clock by up to 20 s in either direction, which is many
// times a lease or a claim.
func (t *storm) stepDatabase(e event) (lift func(), err error) {
	p := period{from: time.Now(), ahead: time.Duration((e.much - 0.5) * float64(40*time.Second))}
	if err := t.db.clock.Ahead(p.ahead); err != nil {
		return nil, err
	}
	return func() {
		if err := t.db.clock.Ahead(0); err != nil {
			t.s.Errorf("%v", err)
		}
		p.to = time.Now()
		t.mu.Lock()
		defer t.mu.Unlock()
		t.stepped = append(t.stepped, p)
	}, nil
}

// endBackends ends up to half of the platform's sessions. While the database is
// away there are none.
func (t *storm) endBackends(ctx context.Context, e event) {
	conn, err := t.connect(ctx)
	if err != nil {
		return
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, _ = conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE usename LIKE $1 || '%' AND hashtext(pid::text || $2::text) & 1023 < $3`,
		loginPrefix, fmt.Sprint(e.whom), int(e.much*512))
}

func (t *storm) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, stop := context.WithTimeout(ctx, 2*time.Second)
	defer stop()
	return pgx.Connect(ctx, t.db.DSN("superuser"))
}

// occupy takes every connection that is free, and keeps them.
func (t *storm) occupy(ctx context.Context) (lift func()) {
	var held []*pgx.Conn
	for range maxConnections {
		limited, stop := context.WithTimeout(ctx, time.Second)
		conn, err := pgx.Connect(limited, t.db.DSN("auditor"))
		stop()
		if err != nil {
			break // all are taken, or the database is away
		}
		held = append(held, conn)
	}
	return func() {
		for _, conn := range held {
			_ = conn.Close(context.WithoutCancel(ctx)) // its backend may be gone
		}
	}
}

// holdSnapshot leaves a transaction open that keeps dead rows from vacuum.
func (t *storm) holdSnapshot(ctx context.Context) (lift func()) {
	conn, err := t.connect(ctx)
	if err != nil {
		return func() {}
	}
	_, _ = conn.Exec(ctx, `BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM leasehold.agent_runs`)
	return func() { _ = conn.Close(context.WithoutCancel(ctx)) }
}

func (t *storm) steps() []period {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]period(nil), t.stepped...)
}

func (t *storm) counts() map[kind]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[kind]int, len(t.injected))
	for k, n := range t.injected {
		out[k] = n
	}
	return out
}
