package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Worker has the metrics of a worker.
type Worker struct {
	slots  prometheus.Gauge
	inUse  prometheus.Gauge
	commit *prometheus.HistogramVec
}

// NewWorker registers the metrics of a worker with that many slots.
func NewWorker(r prometheus.Registerer, slots int) *Worker {
	w := &Worker{
		slots: gauge(r, prefix+"worker_slots",
			"Runs this worker can execute at once. The sum over all workers, compared with slots in use, says whether there are enough."),
		inUse: gauge(r, prefix+"worker_slots_in_use",
			"Runs this worker executes now. At the number of slots for long: add workers, or look for steps that hang."),
		commit: histograms(r, prefix+"commit_duration_seconds",
			"How long a protected write took from the worker's side, queueing for the shared round trip included, by kind of write. The floor of every step's time.", callBuckets(), "kind"),
	}
	w.slots.Set(float64(slots))
	return w
}

// InUse sets how many slots are in use.
func (w *Worker) InUse(n int) { w.inUse.Set(float64(n)) }

// Committed observes one protected write.
func (w *Worker) Committed(kind string, took time.Duration) {
	w.commit.WithLabelValues(kind).Observe(took.Seconds())
}

// Writer has the metrics of what a dispatcher or reconciler writes back.
type Writer struct {
	size   prometheus.Histogram
	took   prometheus.Histogram
	failed prometheus.Counter
}

func newWriter(r prometheus.Registerer) Writer {
	return Writer{
		size: histogram(r, prefix+"result_batch_size",
			"Results written to the ledger by one call. Always 1: no load. At the limit: the database is slower than the tools.", sizeBuckets()),
		took: histogram(r, prefix+"result_write_duration_seconds",
			"How long one call that writes results to the ledger took. Rising with the batch size is normal, rising without it is the database.", callBuckets()),
		failed: counter(r, prefix+"result_write_errors_total",
			"Calls that could not write results. They are repeated; while this grows, answers exist only in this process's memory."),
	}
}

// Flushed observes one call that wrote n results.
func (w Writer) Flushed(n int, took time.Duration, err error) {
	if err != nil {
		w.failed.Inc()
		return
	}
	w.size.Observe(float64(n))
	w.took.Observe(took.Seconds())
}

// Intake has the metrics of how a dispatcher or reconciler takes up work.
type Intake struct {
	size   prometheus.Histogram
	took   prometheus.Histogram
	failed prometheus.Counter
}

func newIntake(r prometheus.Registerer) Intake {
	return Intake{
		size: histogram(r, prefix+"claim_batch_size",
			"Operations (or doubts) taken up by one call. Mostly 0: idle. Mostly at the limit: there is a backlog.", sizeBuckets()),
		took: histogram(r, prefix+"claim_duration_seconds",
			"How long one call that takes up work took. It is the database's part of the time until something is sent.", callBuckets()),
		failed: counter(r, prefix+"claim_errors_total",
			"Calls that could not take up work: while this grows, nothing is sent."),
	}
}

// Claimed observes one call that took up n.
func (i Intake) Claimed(n int, took time.Duration, err error) {
	if err != nil {
		i.failed.Inc()
		return
	}
	i.size.Observe(float64(n))
	i.took.Observe(took.Seconds())
}
