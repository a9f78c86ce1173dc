package app

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/pgtest"
)

// fake is a role that does what the test says.
func fake(run func(ctx context.Context, env Env) error) Role {
	return Role{
		Name:  config.RoleWorker,
		Drain: func(*config.Config) time.Duration { return time.Minute },
		Prepare: func(*config.Config, *slog.Logger) (Start, error) {
			return func(env Env) (func(context.Context) error, error) {
				return func(ctx context.Context) error { return run(ctx, env) }, nil
			}, nil
		},
	}
}

func TestTheFirstSignalDrainsAndTheProcessEndsWell(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	p := inProcess(t, fake(func(ctx context.Context, _ Env) error {
		<-ctx.Done()
		<-release
		return nil
	}), "--config", configFile(t, pgtest.New(t).DSN("worker")))
	probe := p.url(t)
	until(t, probe+"/readyz", 200, `"ready"`)
	p.signal(syscall.SIGTERM)
	until(t, probe+"/readyz", 503, `"draining"`)
	if code, body := get(t, probe+"/livez"); code != 200 {
		t.Errorf("/livez while draining: %d %s", code, body)
	}
	close(release)
	if code := p.exit(t); code != ExitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestTheSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	p := inProcess(t, fake(func(context.Context, Env) error { <-release; return nil }),
		"--config", configFile(t, pgtest.New(t).DSN("worker")))
	until(t, p.url(t)+"/readyz", 200, "ready")
	p.log.wait(t, "role started")
	p.signal(os.Interrupt)
	p.log.wait(t, "process is draining")
	p.signal(os.Interrupt)
	if code := p.exit(t); code != ExitFailed {
		t.Errorf("exit code %d", code)
	}
	if r := p.log.wait(t, "process ended with an error"); r["error"] != ErrHurried.Error() {
		t.Errorf("logged %v", r)
	}
}

func TestARoleThatDoesNotStopIsNotWaitedForEndlessly(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	role := fake(nil)
	role.Drain = func(*config.Config) time.Duration { return 10 * time.Millisecond }
	p := &process{role: role, log: slog.New(slog.DiscardHandler), grace: 10 * time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.health = newProcess(&config.Config{}, role, nil, p.log, Build("")).health
	err := p.supervise(ctx, nil, make(chan error), make(chan error), func(error) {})
	if !errors.Is(err, errNotDrained) {
		t.Errorf("got %v", err)
	}
}

func TestWhatARoleEndsWithIsTheExitCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"an error", errors.New("no more"), "run worker: no more"},
		{"nothing, before it was told to stop", nil, "role ended by itself"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := inProcess(t, fake(func(context.Context, Env) error { return c.err }),
				"--config", configFile(t, pgtest.New(t).DSN("worker")))
			if code := p.exit(t); code != ExitFailed {
				t.Errorf("exit code %d", code)
			}
			if r := p.log.wait(t, "process ended with an error"); r["error"] != c.want {
				t.Errorf("logged %v", r)
			}
			if s := p.log.text(); s != "" {
				t.Errorf("said it twice: %s", s)
			}
		})
	}
}

func TestAProcessWaitsForADatabaseThatIsNotThereAndSaysSo(t *testing.T) {
	t.Parallel()
	p := inProcess(t, stock(config.RoleWorker),
		"--config", configFile(t, "postgres://worker:hunter2@127.0.0.1:1/nowhere"))
	probe := p.url(t)
	until(t, probe+"/readyz", 503, "connection refused")
	if code, _ := get(t, probe+"/livez"); code != 200 {
		t.Error("an outage of the database made the process look dead")
	}
	if _, body := get(t, probe+"/readyz"); strings.Contains(body, "hunter2") {
		t.Errorf("/readyz shows the password: %s", body)
	}
	p.log.wait(t, "database cannot be used yet")
	p.signal(syscall.SIGTERM)
	if code := p.exit(t); code != ExitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestAProcessWaitsForTheSchemaAndSaysSo(t *testing.T) {
	t.Parallel()
	dsn, err := url.Parse(pgtest.New(t).DSN("worker"))
	if err != nil {
		t.Fatal(err)
	}
	dsn.Path = "/postgres" // A database that nobody migrates.
	p := inProcess(t, stock(config.RoleWorker), "--config", configFile(t, dsn.String()))
	until(t, p.url(t)+"/readyz", 503, "leasehold migrate up")
	p.signal(syscall.SIGTERM)
	if code := p.exit(t); code != ExitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestAClosedGateMakesAProcessNotReady(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	p := inProcess(t, stock(config.RoleWorker), "--config", configFile(t, db.DSN("worker")))
	probe := p.url(t)
	until(t, probe+"/readyz", 200, `"gate":"ok"`)
	if _, err := db.Conn(t, "operator").Exec(t.Context(), "SELECT leasehold.set_gate('closed', 'test', 'failover')"); err != nil {
		t.Fatal(err)
	}
	until(t, probe+"/readyz", 503, "gate is closed")
	p.signal(syscall.SIGTERM)
	if code := p.exit(t); code != ExitOK {
		t.Errorf("exit code %d", code)
	}
}

func TestEachStockProcessStartsServesItsMetricsAndStopsOnSIGTERM(t *testing.T) {
	t.Parallel()
	for role, own := range map[config.Role]string{
		config.RoleWorker:     `leasehold_loop_silent_seconds{loop="take runs"}`,
		config.RoleDispatcher: `leasehold_loop_silent_seconds{loop="claim"}`,
		config.RoleReconciler: "tool_operation_unknown_oldest_age_seconds 0",
	} {
		t.Run(string(role), func(t *testing.T) {
			t.Parallel()
			p := child(t, role, "--config", configFile(t, pgtest.New(t).DSN(string(role))))
			probe := p.url(t)
			until(t, probe+"/readyz", 200, `"database":"ok"`)
			until(t, probe+"/metrics", 200, own)
			_, metrics := get(t, probe+"/metrics")
			for _, name := range []string{
				`lease_acquire_total{outcome="success"} 0`, `lease_renew_total{outcome="lost"} 0`,
				`protected_write_rejected_total{reason="lease_lost"} 0`, "lease_row_lock_wait_seconds_count 0",
				`tool_operation_unknown_total{tool="charge"} 0`, "workflow_takeover_duration_seconds_count 0",
				"pgxpool_max_conns 10", `leasehold_build_info{`,
			} {
				if !strings.Contains(metrics, name) {
					t.Errorf("no %s in\n%s", name, metrics)
				}
			}
			if code, body := get(t, probe+"/livez"); code != 200 {
				t.Errorf("/livez: %d %s", code, body)
			}
			p.signal(syscall.SIGTERM)
			if code := p.exit(t); code != ExitOK {
				t.Errorf("exit code %d: %s", code, p.log.text())
			}
			if r := p.log.wait(t, "process ended"); r["role"] != string(role) {
				t.Errorf("logged %v", r)
			}
		})
	}
}

// A loop that was announced under another name than it beats with would make a
// healthy process look dead, a minute after its start.
func TestEveryAnnouncedLoopBeats(t *testing.T) {
	t.Parallel()
	for role, loops := range map[config.Role]int{
		config.RoleWorker: 1, config.RoleDispatcher: 1, config.RoleReconciler: 6,
	} {
		t.Run(string(role), func(t *testing.T) {
			t.Parallel()
			p := inProcess(t, stock(role), "--config", configFile(t, pgtest.New(t).DSN(string(role))),
				"--set", "worker.poll_interval=50ms", "--set", "dispatcher.poll_interval=50ms",
				"--set", "reconciler.interval=50ms", "--set", "reconciler.stats_interval=100ms",
				"--set", "reconciler.watchdog_after=500ms")
			probe := p.url(t)
			until(t, probe+"/readyz", 200, "ready")
			beaten, last := map[string]bool{}, map[string]float64{}
			limit, tick := time.After(patience), time.NewTicker(30*time.Millisecond)
			defer tick.Stop()
			for len(beaten) < loops {
				_, metrics := get(t, probe+"/metrics")
				for name, silent := range silences(t, metrics) {
					if before, seen := last[name]; seen && silent < before {
						beaten[name] = true
					}
					last[name] = silent
				}
				select {
				case <-tick.C:
				case <-limit:
					t.Fatalf("of %v only %v beat", last, beaten)
				}
			}
			if len(last) != loops {
				t.Errorf("announced: %v", last)
			}
			p.signal(syscall.SIGTERM)
			if code := p.exit(t); code != ExitOK {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// silences reads how long ago each loop beat.
func silences(t *testing.T, metrics string) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for line := range strings.Lines(metrics) {
		rest, ok := strings.CutPrefix(line, `leasehold_loop_silent_seconds{loop="`)
		if !ok {
			continue
		}
		name, value, _ := strings.Cut(strings.TrimSpace(rest), `"} `)
		f, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = f
	}
	return out
}

func TestARotatedSecretIsUsedByTheNextConnection(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/dsn"
	d := newDatabase(config.Database{DSNFile: file}, config.RoleWorker, nil)
	for _, password := range []string{"old", "new"} {
		if err := os.WriteFile(file, []byte("postgres://app:"+password+"@db/x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := pgx.ParseConfig("postgres://app:first@db/x")
		if err != nil {
			t.Fatal(err)
		}
		if err := d.refresh(t.Context(), c); err != nil || c.Password != password {
			t.Errorf("got %q %v, want %q", c.Password, err, password)
		}
	}
}
