package localpg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Cluster is a running private server. Its methods are safe for concurrent use.
type Cluster struct {
	acct     account
	bin      Binaries
	opts     Options
	layout   layout
	password string

	mu     sync.Mutex // guards what follows; held through a start or stop, so that these never overlap
	port   int
	server *server // nil while stopped
	pid    int
	closed bool
}

// Start starts a cluster and returns when it answers queries. A failed start leaves no process
// behind, and of a temporary directory nothing.
func Start(ctx context.Context, opts Options) (_ *Cluster, err error) {
	if opts, err = opts.withDefaults(); err != nil {
		return nil, err
	}
	acct, err := serverAccount()
	if err != nil {
		return nil, err
	}
	kept := 0
	if opts.Dir != "" {
		kept = dataMajor(opts.Dir)
	}
	if opts.Binaries.Dir == "" {
		if opts.Find.Major == 0 {
			opts.Find.Major = kept
		}
		if opts.Binaries, err = Find(ctx, opts.Find); err != nil {
			return nil, err
		}
	}
	if kept != 0 && kept != opts.Binaries.Major {
		return nil, fmt.Errorf(
			"data in %s was made by PostgreSQL %d and cannot be run by %s: use binaries of version %d, or another directory",
			opts.Dir, kept, opts.Binaries.Version, kept)
	}
	l, err := openLayout(ctx, acct, opts.Dir)
	if err != nil {
		return nil, err
	}
	c := &Cluster{acct: acct, bin: opts.Binaries, opts: opts, layout: l, port: opts.Port}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	if c.password, err = l.initialise(ctx, acct, c.bin, opts.Password); err != nil {
		return nil, err
	}
	if err = awaitPredecessor(ctx, l.data); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err = c.start(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// DSN is a connection string for a database and a role. It carries the cluster's password; a role
// other than [Superuser] has it only if its creator gave it [Cluster.Password].
func (c *Cluster) DSN(database, role string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dsn(database, role)
}

func (c *Cluster) dsn(database, role string) string {
	dsn := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(role, c.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return dsn.String()
}

// Password is the superuser's password.
func (c *Cluster) Password() string { return c.password }

// Binaries says which server runs.
func (c *Cluster) Binaries() Binaries { return c.bin }

// LogFile is the path of the server's log.
func (c *Cluster) LogFile() string { return c.layout.log }

// Dir is the directory of the cluster's files.
func (c *Cluster) Dir() string { return c.layout.root }

// Pid is the postmaster's process id, or 0 while the server is stopped. It changes with every
// restart.
func (c *Cluster) Pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pid
}

// Done is closed when the present run of the server has ended, by whatever cause. A restart has a
// new channel.
func (c *Cluster) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == nil {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	return c.server.ended
}

// Stop ends the server in order, waiting for nobody's open transaction, and gives the directory up.
// A temporary directory is removed. A second call does nothing.
func (c *Cluster) Stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	return errors.Join(c.stop(ctx, syscall.SIGINT), c.layout.close())
}

// Crash ends the server at once, as a power cut of the process would: clients are cut off and the
// next start recovers from the write-ahead log. The directory stays, for [Cluster.Restart].
func (c *Cluster) Crash(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stop(ctx, syscall.SIGQUIT)
}

// Restart stops the server in order if it runs, and starts it on the same port.
func (c *Cluster) Restart(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errors.New("cluster was stopped for good")
	}
	if err := c.stop(ctx, syscall.SIGINT); err != nil {
		return err
	}
	return c.start(ctx)
}

// start launches the server. A free port can be taken between the look and the use by anybody on
// the machine, so a start on a chosen port is tried again on another.
func (c *Cluster) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.ReadyTimeout)
	defer cancel()
	if err := c.layout.writeSettings(c.acct, c.opts.Settings); err != nil {
		return err
	}
	fixed := c.port != 0
	var last error
	for range 5 {
		if !fixed {
			port, err := freePort(ctx)
			if err != nil {
				return err
			}
			c.port = port
		}
		if last = c.startOnce(ctx); last == nil {
			c.opts.Log.InfoContext(ctx, "local PostgreSQL started",
				"version", c.bin.Version, "port", c.port, "dir", c.layout.root)
			return nil
		}
		if fixed || !strings.Contains(last.Error(), "could not bind") {
			break
		}
	}
	if !fixed {
		c.port = 0
	}
	return last
}

func (c *Cluster) startOnce(ctx context.Context) error {
	logged, err := fileSize(c.layout.log)
	if err != nil {
		return err
	}
	run, err := launch(ctx, c.acct, c.bin, c.layout, c.port, c.opts.Env)
	if err != nil {
		return err
	}
	c.server = run
	err = c.awaitReady(ctx, run)
	if err == nil {
		c.pid = readPid(c.layout.data)
		return nil
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	err = fmt.Errorf("start PostgreSQL %s on port %d: %w%s", c.bin.Version, c.port, err, logTail(c.layout.log, logged))
	return errors.Join(err, c.stop(stopCtx, syscall.SIGQUIT))
}

func (c *Cluster) awaitReady(ctx context.Context, run *server) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		select {
		case <-run.ended:
			return fmt.Errorf("server ended: %w", run.err)
		case <-ctx.Done():
			return fmt.Errorf("not ready in time: %w", errors.Join(ctx.Err(), last))
		case <-tick.C:
		}
		// The file says first whose port it is: a connection alone could reach a stranger's server.
		if !postmasterReady(c.layout.data) {
			continue
		}
		conn, err := pgx.Connect(ctx, c.dsn("postgres", Superuser))
		if err != nil {
			last = err
			continue
		}
		return conn.Close(ctx)
	}
}

const stopLimit = 15 * time.Second

// stop ends the server with growing force: a stopped or stuck server must not hang its program.
func (c *Cluster) stop(ctx context.Context, sig syscall.Signal) error {
	if c.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	for _, force := range []struct {
		sig   syscall.Signal
		limit time.Duration
	}{{sig, 8 * time.Second}, {syscall.SIGQUIT, 5 * time.Second}, {syscall.SIGKILL, 2 * time.Second}} {
		pid := readPid(c.layout.data)
		if pid == 0 {
			// Too early for a pid file, or already gone: the supervisor knows its child.
			_ = c.server.lifeline.Close() // closed already is closed
		} else {
			_ = syscall.Kill(pid, force.sig) // gone already is what we want
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
		select {
		case <-c.server.ended:
			c.server, c.pid = nil, 0
			return nil
		case <-time.After(force.limit):
		case <-ctx.Done():
		}
	}
	return fmt.Errorf("stop PostgreSQL: pid %d still runs", readPid(c.layout.data))
}

func freePort(ctx context.Context) (int, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func fileSize(path string) (int64, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look at server log: %w", err)
	}
	return info.Size(), nil
}
