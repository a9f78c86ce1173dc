package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are those of the protocol. They have no prefix: their names are the
// specification's, letter by letter, and every process has all of them.
type Metrics struct {
	acquired  *prometheus.CounterVec
	renewed   *prometheus.CounterVec
	rejected  *prometheus.CounterVec
	lockWait  prometheus.Histogram
	unknown   *prometheus.CounterVec
	takenOver prometheus.Histogram
	tools     map[string]bool
}

// OtherTool is the tool label of what cannot be put down to a tool of this
// process. A name that only the database knows must not become a label, since
// anyone who plans an operation can invent one.
const OtherTool = "other"

// NewMetrics registers the metrics of the protocol. The outcomes and reasons
// that are known beforehand start at zero, so that a first occurrence shows as
// an increase.
func NewMetrics(r prometheus.Registerer, toolNames ...string) *Metrics {
	m := &Metrics{
		acquired: counters(r, "lease_acquire_total",
			"Attempts to take a run's lease by outcome. Many busy or error outcomes beside few successes: workers fight over few runs, or the database refuses them.", "outcome"),
		renewed: counters(r, "lease_renew_total",
			"Lease renewals by outcome. lost: another worker has taken over, so this one was too slow or was paused. unknown: no answer in time, so look at the database and the network first.", "outcome"),
		rejected: counters(r, "protected_write_rejected_total",
			"Writes of run state that the database refused, by reason. lease_lost is fencing at work: a worker that had lost its lease tried to write. intent_mismatch and invalid are bugs in a workflow.", "reason"),
		lockWait: histogram(r, "lease_row_lock_wait_seconds",
			"How long acquiring, renewing or a protected write waited for the lease's row. More than milliseconds: some transaction is long, and it delays renewal and takeover.", lockBuckets()),
		unknown: counters(r, "tool_operation_unknown_total",
			"Operations that became unknown: sent, or perhaps sent, with no answer that proves anything. Compare with what is resolved; tool=other has those of tools that this process does not have.", "tool"),
		takenOver: histogram(r, "workflow_takeover_duration_seconds",
			"From the end of a lost lease to the first accepted write of the next owner: how long runs stand still after a worker is lost, beyond the lease's own TTL.", spanBuckets()),
		tools: make(map[string]bool, len(toolNames)),
	}
	for _, name := range toolNames {
		m.tools[name] = true
	}
	start(m.acquired, "success", "busy", "missing", "exhausted", "error")
	start(m.renewed, "success", "lost", "unknown")
	start(m.rejected, "lease_lost", "conflict", "terminal", "not_running", "intent_mismatch",
		"open_operations", "invalid", "gate_closed")
	start(m.unknown, append(toolNames, OtherTool)...)
	return m
}

// LeaseAcquired counts an attempt to take a lease.
func (m *Metrics) LeaseAcquired(outcome string) { m.acquired.WithLabelValues(outcome).Inc() }

// LeaseRenewed counts a renewal.
func (m *Metrics) LeaseRenewed(outcome string) { m.renewed.WithLabelValues(outcome).Inc() }

// WriteRejected counts a refused write.
func (m *Metrics) WriteRejected(reason string) { m.rejected.WithLabelValues(reason).Inc() }

// LockWait observes how long a lease's row was waited for.
func (m *Metrics) LockWait(d time.Duration) { m.lockWait.Observe(d.Seconds()) }

// BecameUnknown counts an operation that became unknown. A tool that the
// process was not started with is counted as OtherTool.
func (m *Metrics) BecameUnknown(tool string) {
	if !m.tools[tool] {
		tool = OtherTool
	}
	m.unknown.WithLabelValues(tool).Inc()
}

// TakenOver observes one takeover.
func (m *Metrics) TakenOver(d time.Duration) { m.takenOver.Observe(d.Seconds()) }
