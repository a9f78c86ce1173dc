package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Dispatcher has the metrics of a dispatcher.
type Dispatcher struct {
	Intake
	Writer

	calls   *prometheus.HistogramVec
	waited  *prometheus.HistogramVec
	late    *prometheus.CounterVec
	paused  *prometheus.CounterVec
	pause   *prometheus.CounterVec
	results prometheus.Gauge
	bytes   prometheus.Gauge
}

// NewDispatcher registers the metrics of a dispatcher with these tools.
func NewDispatcher(r prometheus.Registerer, toolNames ...string) *Dispatcher {
	d := &Dispatcher{
		Intake: newIntake(r),
		Writer: newWriter(r),
		calls: histograms(r, prefix+"dispatch_duration_seconds",
			"Calls of tools by outcome, and how long they took. succeeded and rejected are facts; a growing share of unknown means that a tool or the way to it loses answers.", callBuckets(), "tool", "outcome"),
		waited: histograms(r, prefix+"dispatch_wait_seconds",
			"How long operations waited, prepared, until they were claimed. Growing: too few slots for the tool, too few dispatchers, or the tool is paused.", spanBuckets(), "tool"),
		late: counters(r, prefix+"dispatch_late_results_total",
			"Answers that came after their claim had ended, kept as evidence. More than a few: the tool is slower than its request timeout says, or this process is starved.", "tool"),
		paused: counters(r, prefix+"tool_pauses_total",
			"How often claiming of a tool was paused because it refused connections or asked to be left alone.", "tool"),
		pause: counters(r, prefix+"tool_pause_seconds_total",
			"For how long, added up, claiming of a tool was paused. Its rate is the share of time in which the tool was left alone.", "tool"),
		results: gauge(r, prefix+"result_backlog",
			"Answers of tools that wait to be written to the ledger. Above zero for long: the database does not take them, and a crash now would turn them into doubts."),
		bytes: gauge(r, prefix+"result_backlog_bytes",
			"Memory held by the answers that wait to be written. At its limit this process claims nothing more."),
	}
	start(d.late, toolNames...)
	start(d.paused, toolNames...)
	start(d.pause, toolNames...)
	return d
}

// Called observes one call of a tool.
func (d *Dispatcher) Called(tool, outcome string, took time.Duration) {
	d.calls.WithLabelValues(tool, outcome).Observe(took.Seconds())
}

// Waited observes how long an operation was prepared.
func (d *Dispatcher) Waited(tool string, waited time.Duration) {
	d.waited.WithLabelValues(tool).Observe(waited.Seconds())
}

// Late counts an answer whose claim was lost.
func (d *Dispatcher) Late(tool string) { d.late.WithLabelValues(tool).Inc() }

// Paused counts a pause of a tool.
func (d *Dispatcher) Paused(tool string, pause time.Duration) {
	d.paused.WithLabelValues(tool).Inc()
	d.pause.WithLabelValues(tool).Add(pause.Seconds())
}

// Backlog sets how much waits to be written.
func (d *Dispatcher) Backlog(results, bytes int) {
	d.results.Set(float64(results))
	d.bytes.Set(float64(bytes))
}
