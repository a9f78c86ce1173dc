package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	maxHeader = 16 << 10
	// maxBody is for bodies that no request here needs.
	maxBody         = 1 << 10
	shutdownTimeout = 2 * time.Second
	// profileTimeout lets a CPU profile of a minute be taken.
	profileTimeout = 90 * time.Second
)

// Admin is the admin server. Its port is taken by ListenAdmin, so that a port
// that is in use is an error at start and not a line in the log.
type Admin struct {
	listener net.Listener
	server   *http.Server
}

// AdminOptions says what an admin server shows.
type AdminOptions struct {
	Address  string
	Health   *Health
	Gatherer prometheus.Gatherer
	Pprof    bool
	Logger   *slog.Logger
}

// ListenAdmin takes the port; Run answers on it.
func ListenAdmin(ctx context.Context, o AdminOptions) (*Admin, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for probes and metrics (http.listen): %w", err)
	}
	writeTimeout := 30 * time.Second
	if o.Pprof {
		writeTimeout = profileTimeout
	}
	return &Admin{listener: l, server: &http.Server{
		Handler:           http.MaxBytesHandler(routes(o), maxBody),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}}, nil
}

// Address is where the server listens.
func (a *Admin) Address() string { return a.listener.Addr().String() }

// Run answers until ctx ends.
func (a *Admin) Run(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- a.server.Serve(a.listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve probes and metrics: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := a.server.Shutdown(stop); err != nil {
		// A scrape that hangs is not worth waiting for.
		_ = a.server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve probes and metrics: %w", err)
	}
	return nil
}

func routes(o AdminOptions) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, o.Health.Live())
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		answer(w, o.Health.Ready(r.Context()))
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{
		EnableOpenMetrics: true,
		// One collector in trouble must not hide all others.
		ErrorHandling:       promhttp.ContinueOnError,
		ErrorLog:            slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
		MaxRequestsInFlight: 4,
		Timeout:             10 * time.Second,
	}))
	if o.Pprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

func answer(w http.ResponseWriter, r Report) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !r.OK {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	// Nothing to do about a prober that has gone.
	_ = json.NewEncoder(w).Encode(r)
}
