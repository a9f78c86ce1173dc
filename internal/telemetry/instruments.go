package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// prefix begins the name of every metric that the specification does not name.
const prefix = "leasehold_"

func counters(r prometheus.Registerer, name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	r.MustRegister(c)
	return c
}

func counter(r prometheus.Registerer, name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	r.MustRegister(c)
	return c
}

func gauge(r prometheus.Registerer, name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	r.MustRegister(g)
	return g
}

func gauges(r prometheus.Registerer, name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	r.MustRegister(g)
	return g
}

func histogram(r prometheus.Registerer, name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(histogramOpts(name, help, buckets))
	r.MustRegister(h)
	return h
}

func histograms(r prometheus.Registerer, name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(histogramOpts(name, help, buckets), labels)
	r.MustRegister(h)
	return h
}

// histogramOpts asks for native histograms beside the classic buckets: a server
// that takes them gets the exact shape, every other gets these buckets.
func histogramOpts(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  160,
		NativeHistogramMinResetDuration: time.Hour,
	}
}

// start makes the children of v for these values of its only label appear at
// zero.
func start(v *prometheus.CounterVec, values ...string) {
	for _, value := range values {
		v.WithLabelValues(value)
	}
}

// lockBuckets reach from a lock nobody holds to the default TTL of a lease.
func lockBuckets() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 5, 10, 30}
}

// callBuckets reach from a local call to the longest request that a default
// claim allows.
func callBuckets() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
}

// spanBuckets are for what takes seconds when all is well and minutes when not.
func spanBuckets() []float64 {
	return []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600}
}

func sizeBuckets() []float64 { return []float64{0, 1, 2, 5, 10, 20, 50, 100} }
