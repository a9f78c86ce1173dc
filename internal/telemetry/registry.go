package telemetry

import (
	"fmt"

	"github.com/IBM/pgxpoolprometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Build says which program this is.
type Build struct {
	Version   string
	GoVersion string
	Role      string
}

// NewRegistry returns a registry with what every process tells: which build it
// is, and the usual metrics of the Go runtime and the process.
func NewRegistry(b Build) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	gauges(r, prefix+"build_info",
		"Always 1. Says which versions run as which role: two versions for longer than a roll-out takes mean one that hangs.",
		"version", "go_version", "role").
		WithLabelValues(b.Version, b.GoVersion, b.Role).Set(1)
	return r
}

// RegisterPool adds the statistics of a connection pool. Waits that grow mean
// too few connections or too slow a database.
func RegisterPool(r prometheus.Registerer, pool pgxpoolprometheus.Stater) error {
	if err := r.Register(pgxpoolprometheus.NewCollector(pool, nil)); err != nil {
		return fmt.Errorf("register pool statistics: %w", err)
	}
	return nil
}
