package telemetry

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// everything returns a registry with all metrics of all roles, each observed
// once.
func everything(t *testing.T) (*prometheus.Registry, []string) {
	t.Helper()
	base := NewRegistry(Build{Version: "v1", GoVersion: "go1", Role: "worker"})
	m := NewMetrics(base, "charge")
	m.LeaseAcquired("success")
	m.LockWait(time.Millisecond)
	m.TakenOver(time.Second)
	m.BecameUnknown("charge")
	m.LeaseRenewed("lost")
	m.WriteRejected("lease_lost")
	w := NewWorker(base, 10)
	w.InUse(3)
	w.Committed("step", time.Millisecond)

	d := NewDispatcher(base, "charge")
	d.Claimed(3, time.Millisecond, nil)
	d.Claimed(0, time.Millisecond, errors.New("no"))
	d.Flushed(3, time.Millisecond, nil)
	d.Flushed(3, time.Millisecond, errors.New("no"))
	d.Called("charge", "succeeded", time.Second)
	d.Waited("charge", time.Second)
	d.Late("charge")
	d.Paused("charge", time.Second)
	d.Backlog(1, 2)

	pool, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/nowhere")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := RegisterPool(base, pool); err != nil {
		t.Fatal(err)
	}

	health := NewHealth()
	health.Register(base)
	health.Loop("claim", time.Minute)
	return base, append(reconcilerNames(t), names(t, base)...)
}

func names(t *testing.T, g prometheus.Gatherer) []string {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		out = append(out, f.GetName())
	}
	return out
}

// reconciler is registered apart: it shares the names of intake and writer with
// the dispatcher, and one process is never both.
func reconciler() (*prometheus.Registry, *Reconciler) {
	r := prometheus.NewRegistry()
	called := NewCallbacks(r, []string{"recorded", "bad_signature"}, "charge")
	called.Received("charge", "recorded", time.Millisecond)
	called.Received("", "bad_signature", time.Millisecond)
	c := NewReconciler(r, "charge")
	c.Claimed(1, time.Millisecond, nil)
	c.Flushed(1, time.Millisecond, nil)
	c.Called("charge", "query", "succeeded", time.Second)
	c.Refused("charge")
	c.Resolved("charge", "succeeded", "query", time.Minute)
	c.PutBack("charge", true)
	c.PutBack("charge", false)
	c.Expired()
	c.Requeued(time.Second)
	c.Terminated(1)
	c.Measured(Ledger{
		Unknown: map[string]int64{"charge": 3, OtherTool: 1}, Prepared: map[string]int64{"charge": 4},
		OldestUnknown: time.Minute, OldestPrepared: time.Second, NeedsPerson: 1, ExpiredButLocked: 2,
		At: time.Unix(1000, 0),
	})
	return r, c
}

func reconcilerNames(t *testing.T) []string {
	t.Helper()
	r, _ := reconciler()
	return names(t, r)
}

func TestTheMetricsOfTheSpecificationHaveItsNames(t *testing.T) {
	t.Parallel()
	_, have := everything(t)
	for _, want := range []string{
		"lease_acquire_total", "lease_renew_total", "protected_write_rejected_total",
		"lease_row_lock_wait_seconds", "tool_operation_unknown_total",
		"tool_operation_unknown_oldest_age_seconds", "workflow_takeover_duration_seconds",
	} {
		if !slices.Contains(have, want) {
			t.Errorf("there is no %s", want)
		}
	}
}

func TestEveryProcessShowsTheMetricsOfTheSpecificationBeforeAnythingHappened(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	NewMetrics(r)
	have := names(t, r)
	want := []string{
		"lease_acquire_total", "lease_renew_total", "lease_row_lock_wait_seconds",
		"protected_write_rejected_total", "tool_operation_unknown_total", "workflow_takeover_duration_seconds",
	}
	if !slices.Equal(have, want) {
		t.Errorf("got %v, want %v", have, want)
	}
}

func TestMetricsFollowTheConventionsOfPrometheus(t *testing.T) {
	t.Parallel()
	base, _ := everything(t)
	own, _ := reconciler()
	for _, g := range []prometheus.Gatherer{base, own} {
		problems, err := testutil.GatherAndLint(g)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			// The library of the pool's statistics chose its own names.
			if !strings.HasPrefix(p.Metric, "pgxpool_") {
				t.Errorf("%s: %s", p.Metric, p.Text)
			}
		}
	}
}

func TestOnlyTheSpecificationsMetricsHaveNoPrefix(t *testing.T) {
	t.Parallel()
	_, have := everything(t)
	known := []string{"leasehold_", "go_", "process_", "pgxpool_", "lease_", "protected_write_", "tool_operation_", "workflow_takeover_"}
	for _, name := range have {
		if !slices.ContainsFunc(known, func(p string) bool { return strings.HasPrefix(name, p) }) {
			t.Errorf("%s has no known prefix", name)
		}
	}
}

// A label with as many values as there are runs makes a metrics server fall
// over, days after the deployment.
func TestNoIdentityIsALabel(t *testing.T) {
	t.Parallel()
	allowed := []string{
		"outcome", "reason", "tool", "kind", "call", "status", "by", "next", "loop", // fixed lists and configured names
		"version", "go_version", "role",
	}
	base, _ := everything(t)
	own, _ := reconciler()
	for _, g := range []prometheus.Gatherer{base, own} {
		families, err := g.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if strings.HasPrefix(f.GetName(), "go_") {
				continue
			}
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if !slices.Contains(allowed, l.GetName()) {
						t.Errorf("%s has label %s", f.GetName(), l.GetName())
					}
				}
			}
		}
	}
}

func TestTheHelpOfOurMetricsIsASentence(t *testing.T) {
	t.Parallel()
	base, _ := everything(t)
	families, err := base.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), prefix) && (len(f.GetHelp()) < 60 || !strings.HasSuffix(f.GetHelp(), ".")) {
			t.Errorf("%s: %q says too little", f.GetName(), f.GetHelp())
		}
	}
}

func TestAToolThatNobodyConfiguredIsNoLabel(t *testing.T) {
	t.Parallel()
	m := NewMetrics(prometheus.NewRegistry(), "charge")
	for _, tool := range []string{"charge", "invented-1", "invented-2"} {
		m.BecameUnknown(tool)
	}
	if n := testutil.ToFloat64(m.unknown.WithLabelValues(OtherTool)); n != 2 {
		t.Errorf("counted %v as other", n)
	}
	if n := testutil.CollectAndCount(m.unknown); n != 2 {
		t.Errorf("%d labels", n)
	}
}

func TestEachOutcomeOfACallbackStartsAtZeroForEachTool(t *testing.T) {
	t.Parallel()
	r, _ := reconciler()
	want := `
# HELP leasehold_callbacks_total Messages that tools called back, by what became of them. bad_signature and stale_timestamp: a wrong secret, a wrong clock or a stranger. contradiction and the wrong_ outcomes wait for a person. tool=other: none that is configured.
# TYPE leasehold_callbacks_total counter
leasehold_callbacks_total{outcome="bad_signature",tool="charge"} 0
leasehold_callbacks_total{outcome="bad_signature",tool="other"} 1
leasehold_callbacks_total{outcome="recorded",tool="charge"} 1
leasehold_callbacks_total{outcome="recorded",tool="other"} 0
`
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), "leasehold_callbacks_total"); err != nil {
		t.Error(err)
	}
}

func TestFailedCallsAreCountedAndNotMeasured(t *testing.T) {
	t.Parallel()
	base, _ := everything(t)
	want := `
# HELP leasehold_claim_errors_total Calls that could not take up work: while this grows, nothing is sent.
# TYPE leasehold_claim_errors_total counter
leasehold_claim_errors_total 1
`
	if err := testutil.GatherAndCompare(base, strings.NewReader(want), "leasehold_claim_errors_total"); err != nil {
		t.Error(err)
	}
	families, err := base.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		switch f.GetName() {
		case "leasehold_claim_batch_size", "leasehold_claim_duration_seconds",
			"leasehold_result_batch_size", "leasehold_result_write_duration_seconds":
			if n := f.GetMetric()[0].GetHistogram().GetSampleCount(); n != 1 {
				t.Errorf("%s has %d samples", f.GetName(), n)
			}
		}
	}
}

func TestAToolThatIsMeasuredNoMoreIsShownNoMore(t *testing.T) {
	t.Parallel()
	r, c := reconciler()
	if n := testutil.CollectAndCount(c.unknown); n != 2 {
		t.Fatalf("%d tools", n)
	}
	c.Measured(Ledger{Unknown: map[string]int64{"charge": 0}, At: time.Unix(2000, 0)})
	if n := testutil.CollectAndCount(c.unknown); n != 1 {
		t.Errorf("%d tools", n)
	}
	if v := testutil.ToFloat64(c.measured); v != 2000 {
		t.Errorf("measured at %v", v)
	}
	if n, err := testutil.GatherAndCount(r, "leasehold_operations_prepared"); err != nil || n != 0 {
		t.Errorf("prepared: %d %v", n, err)
	}
}
