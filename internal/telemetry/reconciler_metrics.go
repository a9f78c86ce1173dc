package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Reconciler has the metrics of a reconciler, and those of the ledger itself,
// which only reconcilers export: every one of them measures the same ledger, so
// take the maximum over them and not the sum.
type Reconciler struct {
	Intake
	Writer

	calls      *prometheus.HistogramVec
	refused    *prometheus.CounterVec
	resolved   *prometheus.CounterVec
	age        prometheus.Histogram
	putBack    *prometheus.CounterVec
	expired    prometheus.Counter
	requeued   prometheus.Histogram
	terminated prometheus.Counter

	oldestUnknown  prometheus.Gauge
	oldestPrepared prometheus.Gauge
	unknown        *prometheus.GaugeVec
	prepared       *prometheus.GaugeVec
	person         prometheus.Gauge
	locked         prometheus.Gauge
	measured       prometheus.Gauge
}

// NewReconciler registers the metrics of a reconciler with these tools.
func NewReconciler(r prometheus.Registerer, toolNames ...string) *Reconciler {
	c := &Reconciler{
		Intake: newIntake(r),
		Writer: newWriter(r),
		calls: histograms(r, prefix+"reconcile_call_duration_seconds",
			"What asking a tool about an operation in doubt (call=query), or sending it again (call=resend), came to.", callBuckets(), "tool", "call", "outcome"),
		refused: counters(r, prefix+"reconcile_resend_refused_total",
			"Re-sends that the database did not allow: the run had ended, the tool's retention was over, or a sender could still be alive.", "tool"),
		resolved: counters(r, prefix+"reconcile_resolved_total",
			"Doubts that ended in a fact, by what it was and what proved it.", "tool", "status", "by"),
		age: histogram(r, prefix+"reconcile_resolved_age_seconds",
			"How old doubts were when they ended: how long a lost answer holds a run up.", spanBuckets()),
		putBack: counters(r, prefix+"reconcile_put_back_total",
			"Attempts to end a doubt that left it one. next=person: no attempt will follow until somebody decides.", "tool", "next"),
		expired: counter(r, prefix+"claims_expired_total",
			"Claims that ran out without a result: a dispatcher was lost or frozen in the middle of a call."),
		requeued: histogram(r, prefix+"lease_requeue_delay_seconds",
			"Runs put back into the queue because their lease had run out, and how long after that. Its count is lost workers times their runs.", spanBuckets()),
		terminated: counter(r, prefix+"stuck_clients_terminated_total",
			"Database connections ended because their client was silent while it held locks: a process was frozen in the middle of a write."),
		oldestUnknown: gauge(r, "tool_operation_unknown_oldest_age_seconds",
			"Age of the oldest operation in doubt, 0 if there is none. Growing beyond the back-off: it does not converge, and some run waits for it."),
		oldestPrepared: gauge(r, prefix+"operations_prepared_oldest_age_seconds",
			"Age of the oldest operation that waits to be sent. Growing: no dispatcher has that tool, or has a free slot for it."),
		unknown: gauges(r, prefix+"operations_unknown",
			"Operations in doubt now, by tool. tool=other: this process does not have the tool and leaves them alone.", "tool"),
		prepared: gauges(r, prefix+"operations_prepared",
			"Operations that wait to be sent now, by tool.", "tool"),
		person: gauge(r, prefix+"operations_needing_a_person",
			"Operations in doubt that nothing automatic may end. Each is a decision somebody owes a run."),
		locked: gauge(r, prefix+"leases_expired_but_locked",
			"Leases that have run out and whose row is locked: takeover waits for a transaction that does not end."),
		measured: gauge(r, prefix+"ledger_measured_timestamp_seconds",
			"When the ledger was last measured. If it stands still, so do all gauges about the ledger, whatever they say."),
	}
	start(c.refused, toolNames...)
	return c
}

// Called observes one query ("query") or re-send ("resend").
func (c *Reconciler) Called(tool, call, outcome string, took time.Duration) {
	c.calls.WithLabelValues(tool, call, outcome).Observe(took.Seconds())
}

// Refused counts a re-send that the database did not allow.
func (c *Reconciler) Refused(tool string) { c.refused.WithLabelValues(tool).Inc() }

// Resolved counts a doubt that ended.
func (c *Reconciler) Resolved(tool, status, by string, age time.Duration) {
	c.resolved.WithLabelValues(tool, status, by).Inc()
	c.age.Observe(age.Seconds())
}

// PutBack counts a doubt that stays one; person says who is next.
func (c *Reconciler) PutBack(tool string, person bool) {
	next := "attempt"
	if person {
		next = "person"
	}
	c.putBack.WithLabelValues(tool, next).Inc()
}

// Expired counts a claim that ran out.
func (c *Reconciler) Expired() { c.expired.Inc() }

// Requeued observes a run whose lease ran out that long ago.
func (c *Reconciler) Requeued(sinceExpiry time.Duration) { c.requeued.Observe(sinceExpiry.Seconds()) }

// Terminated counts silent clients that were disconnected.
func (c *Reconciler) Terminated(n int) { c.terminated.Add(float64(n)) }

// Ledger is one measurement of the ledger. The maps have only tools of this
// process; OtherTool stands for the rest.
type Ledger struct {
	Unknown, Prepared             map[string]int64
	OldestUnknown, OldestPrepared time.Duration
	NeedsPerson                   int64
	ExpiredButLocked              int64
	At                            time.Time
}

// Measured sets the gauges of the ledger.
func (c *Reconciler) Measured(l Ledger) {
	// A tool that is not in the measurement any more must not keep its last
	// value.
	c.unknown.Reset()
	c.prepared.Reset()
	for tool, n := range l.Unknown {
		c.unknown.WithLabelValues(tool).Set(float64(n))
	}
	for tool, n := range l.Prepared {
		c.prepared.WithLabelValues(tool).Set(float64(n))
	}
	c.oldestUnknown.Set(l.OldestUnknown.Seconds())
	c.oldestPrepared.Set(l.OldestPrepared.Seconds())
	c.person.Set(float64(l.NeedsPerson))
	c.locked.Set(float64(l.ExpiredButLocked))
	c.measured.Set(float64(l.At.UnixMilli()) / 1000)
}
