package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/leasehold/leasehold/internal/localpg"
	"github.com/leasehold/leasehold/migrations"
)

// stage is everything that runs: a PostgreSQL of our own, the payments service,
// two workers, two dispatchers, one reconciler, and the watcher.
type stage struct {
	dir      string // of configuration and logs
	bin      string
	config   string
	cluster  *localpg.Cluster
	fleet    *fleet
	payments *payments
	// workers and dispatchers are by name.
	workers     map[string]*process
	dispatchers map[string]*process
	conn        *pgx.Conn
	timeline    *timeline
	watcher     *watcher
}

// set sets the stage. What it has started is for strike to stop, also after an
// error.
func (s *stage) set(ctx context.Context) error {
	if err := s.startDatabase(ctx); err != nil {
		return err
	}
	if err := s.startPayments(ctx); err != nil {
		return err
	}
	if err := s.writeConfig(); err != nil {
		return err
	}
	return s.startProcesses(ctx)
}

func (s *stage) startDatabase(ctx context.Context) (err error) {
	s.timeline.now("demo", plain, "starting a private PostgreSQL")
	if s.cluster, err = localpg.Start(ctx, localpg.Options{Log: slog.New(slog.DiscardHandler)}); err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	admin := s.cluster.DSN("postgres", localpg.Superuser)
	if _, err := migrations.Up(ctx, admin, migrations.Options{}); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if err := migrations.CreateLogins(ctx, admin, login, s.cluster.Password()); err != nil {
		return err
	}
	if s.conn, err = pgx.Connect(ctx, s.dsn("auditor")); err != nil {
		return fmt.Errorf("connect as auditor: %w", err)
	}
	s.timeline.now("demo", plain, "PostgreSQL %s is up and migrated; no process owns a table, each may only call its functions",
		s.cluster.Binaries().Version)
	return nil
}

// login is the prefix of the roles that processes log in as.
const login = "demo_"

func (s *stage) dsn(role string) string { return s.cluster.DSN("postgres", login+role) }

func (s *stage) startPayments(ctx context.Context) error {
	p, err := s.fleet.start("payments", environment(), filepath.Join(s.bin, "payments"),
		"-addr", "127.0.0.1:0", "-ledger", filepath.Join(s.dir, "payments.jsonl"))
	if err != nil {
		return err
	}
	s.payments = &payments{client: &http.Client{Timeout: 5 * time.Second}}
	err = poll(ctx, 10*time.Second, "the payments service says where it listens", func() bool {
		content, _ := os.ReadFile(p.log) // not there yet is no news
		_, after, found := strings.Cut(string(content), "listening on ")
		url, _, whole := strings.Cut(after, "\n")
		s.payments.url = url
		return found && whole
	})
	if err != nil {
		return err
	}
	s.timeline.now("demo", plain, "a payments service that knows nothing of Leasehold runs on %s", s.payments.url)
	return nil
}

func (s *stage) startProcesses(ctx context.Context) error {
	type child struct{ name, program, url string }
	children := []child{
		{name: "worker-1", program: "worker"},
		{name: "worker-2", program: "worker"},
		{name: "dispatcher-1", program: "dispatcher"},
		{name: "dispatcher-2", program: "dispatcher"},
		{name: "reconciler", program: "reconciler"},
	}
	s.workers, s.dispatchers = map[string]*process{}, map[string]*process{}
	for i, c := range children {
		listen, err := freeAddress(ctx)
		if err != nil {
			return err
		}
		children[i].url = "http://" + listen
		env := environment("LEASEHOLD_CONFIG="+s.config, "LEASEHOLD_HTTP_LISTEN="+listen, clientVariable+"="+c.name)
		p, err := s.fleet.start(c.name, env, filepath.Join(s.bin, c.program))
		if err != nil {
			return err
		}
		switch c.program {
		case "worker":
			s.workers[c.name] = p
		case "dispatcher":
			s.dispatchers[c.name] = p
		}
	}
	client := &http.Client{Timeout: time.Second}
	for _, c := range children {
		err := poll(ctx, 20*time.Second, c.name+" is ready", func() bool {
			resp, err := client.Get(c.url + "/readyz")
			if err != nil {
				return false
			}
			_ = resp.Body.Close() // nothing was read from it
			return resp.StatusCode == http.StatusOK
		})
		if err != nil {
			return err
		}
	}
	client.CloseIdleConnections()
	s.timeline.now("demo", plain, "five processes of Leasehold are ready: two workers, two dispatchers, one reconciler")
	s.watcher = newWatcher(&ledger{s.conn}, s.payments, newLogs(s.workers["worker-1"], s.workers["worker-2"]), s.timeline, s.workerName)
	return nil
}

// workerName turns what a worker calls itself in the ledger (host/pid) into
// its name in the timeline.
func (s *stage) workerName(worker string) string {
	for name, p := range s.workers {
		if strings.HasSuffix(worker, fmt.Sprintf("/%d", p.pid())) {
			return name
		}
	}
	return worker
}

// strike stops everything, whatever state it is in.
func (s *stage) strike(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	s.fleet.stop(8 * time.Second)
	var err error
	if s.conn != nil {
		err = errors.Join(err, s.conn.Close(ctx))
	}
	if s.cluster != nil {
		err = errors.Join(err, s.cluster.Stop(ctx))
	}
	return err
}

func freeAddress(ctx context.Context) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// poll waits until ok holds, for what is not in any ledger.
func poll(ctx context.Context, limit time.Duration, what string, ok func() bool) error {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(limit)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			return fmt.Errorf("waited %s in vain until %s", limit, what)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
