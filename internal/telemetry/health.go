package telemetry

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Health knows whether this process is alive and whether it is ready.
//
// Alive means that its loops make progress. Ready means that it can do its
// work now: the database answers, its schema fits, the gate is open. The two
// are kept apart because a restart helps the first and never the second: if an
// outage of the database made processes look dead, they would all be restarted
// at the moment when it comes back.
type Health struct {
	now func() time.Time

	mu       sync.Mutex // guards what follows
	loops    map[string]*loop
	checks   []namedCheck
	draining bool
	last     Report
	lastAt   time.Time
}

type loop struct {
	limit time.Duration
	beat  time.Time
}

// Check reports why this process cannot do its work now, or nil.
type Check func(ctx context.Context) error

type namedCheck struct {
	name  string
	check Check
}

// Report is the answer of a probe.
type Report struct {
	OK     bool              `json:"-"`
	Status string            `json:"status"`
	Checks map[string]string `json:"checks,omitempty"`
}

const (
	// checkTimeout bounds all checks of one probe, below a prober's patience.
	checkTimeout = 2 * time.Second
	// checkEvery is how long an answer is good for: probes come from several
	// sides, and must not become a load on a database that is in trouble.
	checkEvery = time.Second
)

// NewHealth returns a Health that is alive, since it has no loops yet, and not
// ready, since it has no checks yet.
func NewHealth() *Health {
	return &Health{now: time.Now, loops: make(map[string]*loop)}
}

// Loop says that Beat is going to be called with this name at least every
// limit, from now on.
func (h *Health) Loop(name string, limit time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.loops[name] = &loop{limit: limit, beat: h.now()}
}

// Beat says that the loop of that name has made progress. A name that Loop has
// not announced is ignored: its silence says nothing.
func (h *Health) Beat(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l, ok := h.loops[name]; ok {
		l.beat = h.now()
	}
}

// Require adds a check to readiness.
func (h *Health) Require(name string, check Check) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks = append(h.checks, namedCheck{name, check})
	h.lastAt = time.Time{}
}

// Drain says that this process is stopping: it is not ready any more, and its
// loops may fall silent. It stays alive, or a prober would kill it in the
// middle of the work it is finishing.
func (h *Health) Drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.draining = true
}

// Live reports whether the loops make progress.
func (h *Health) Live() Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := Report{OK: true, Status: "alive", Checks: map[string]string{}}
	for name, l := range h.loops {
		silent := h.now().Sub(l.beat)
		if silent <= l.limit || h.draining {
			r.Checks[name] = "ok"
			continue
		}
		r.OK, r.Status = false, "stuck"
		r.Checks[name] = fmt.Sprintf("no progress for %s, limit %s", silent.Round(time.Millisecond), l.limit)
	}
	return r
}

// Ready reports whether this process can do its work. Checks run one after the
// other, and not at all if they were run a moment ago.
func (h *Health) Ready(ctx context.Context) Report {
	h.mu.Lock()
	checks, draining := h.checks, h.draining
	last, fresh := h.last, !h.lastAt.IsZero() && h.now().Sub(h.lastAt) < checkEvery
	h.mu.Unlock()
	if draining {
		return Report{Status: "draining"}
	}
	if fresh {
		return last
	}
	if len(checks) == 0 {
		return Report{Status: "starting"}
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	r := Report{OK: true, Status: "ready", Checks: map[string]string{}}
	for _, c := range checks {
		r.Checks[c.name] = "ok"
		if err := c.check(ctx); err != nil {
			r.OK, r.Status = false, "not ready"
			r.Checks[c.name] = err.Error()
		}
	}
	h.mu.Lock()
	h.last, h.lastAt = r, h.now()
	h.mu.Unlock()
	return r
}

// Register adds the age of each loop's last beat to the metrics.
func (h *Health) Register(r prometheus.Registerer) { r.MustRegister(beats{h, beatDesc()}) }

type beats struct {
	health *Health
	desc   *prometheus.Desc
}

func beatDesc() *prometheus.Desc {
	return prometheus.NewDesc(prefix+"loop_silent_seconds",
		"How long ago each main loop of this process last made progress. Beyond its limit /livez fails.",
		[]string{"loop"}, nil)
}

func (b beats) Describe(c chan<- *prometheus.Desc) { c <- b.desc }

func (b beats) Collect(c chan<- prometheus.Metric) {
	b.health.mu.Lock()
	defer b.health.mu.Unlock()
	names := make([]string, 0, len(b.health.loops))
	for name := range b.health.loops {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		silent := b.health.now().Sub(b.health.loops[name].beat)
		c <- prometheus.MustNewConstMetric(b.desc, prometheus.GaugeValue, silent.Seconds(), name)
	}
}
