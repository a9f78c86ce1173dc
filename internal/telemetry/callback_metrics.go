package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Callbacks has the metrics of a listener for callbacks.
type Callbacks struct {
	received *prometheus.CounterVec
	took     prometheus.Histogram
}

// NewCallbacks registers the metrics of a listener at which these tools call
// back, with these outcomes.
func NewCallbacks(r prometheus.Registerer, outcomes []string, toolNames ...string) *Callbacks {
	c := &Callbacks{
		received: counters(r, prefix+"callbacks_total",
			"Messages that tools called back, by what became of them. bad_signature and stale_timestamp: a wrong secret, a wrong clock or a stranger. contradiction and the wrong_ outcomes wait for a person. tool=other: none that is configured.", "tool", "outcome"),
		took: histogram(r, prefix+"callback_duration_seconds",
			"How long it took to answer a message that a tool called back. Seconds: the database is slow, and tools will give up and send again.", callBuckets()),
	}
	for _, outcome := range outcomes {
		for _, tool := range append(toolNames, OtherTool) {
			c.received.WithLabelValues(tool, outcome)
		}
	}
	return c
}

// Received observes one request. tool is "" if it names none that is configured.
func (c *Callbacks) Received(tool, outcome string, took time.Duration) {
	if tool == "" {
		tool = OtherTool
	}
	c.received.WithLabelValues(tool, outcome).Inc()
	c.took.Observe(took.Seconds())
}
