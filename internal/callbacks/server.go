package callbacks

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	maxHeader = 16 << 10
	// maxInFlight bounds the bodies that are in memory, whoever sends them.
	maxInFlight     = 64
	shutdownTimeout = 5 * time.Second
)

// Server is the listener for callbacks. Its port is taken by Listen, so that a
// port that is in use is an error at start and not a line in the log.
type Server struct {
	listener net.Listener
	server   *http.Server
}

// Options says where a server listens, and to whom.
type Options struct {
	Address string
	// CertFile and KeyFile, if set, make it speak TLS only. They are read for
	// each connection, so a renewed certificate needs no restart.
	CertFile, KeyFile string
	// Tools are those that may call back, by name.
	Tools map[string]Tool
	Store Store
	// Received, if not nil, hears of every request: tool is "" unless a
	// configured one is named, outcome one of Outcomes.
	Received func(tool, outcome string, took time.Duration)
	Logger   *slog.Logger
}

// Listen takes the port; Run answers on it.
func Listen(ctx context.Context, o Options) (*Server, error) {
	if o.Received == nil {
		o.Received = func(string, string, time.Duration) {}
	}
	s := &Server{server: &http.Server{
		Handler:           &handler{Options: o, now: time.Now, room: make(chan struct{}, maxInFlight)},
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}}
	if o.CertFile != "" {
		load := func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
			return &pair, err
		}
		if _, err := load(nil); err != nil {
			return nil, fmt.Errorf("load certificate of callbacks: %w", err)
		}
		s.server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: load}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for callbacks: %w", err)
	}
	s.listener = l
	return s, nil
}

// Address is where the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Run answers until ctx ends, and then until requests under way are answered.
func (s *Server) Run(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() {
		if s.server.TLSConfig != nil {
			ended <- s.server.ServeTLS(s.listener, "", "")
			return
		}
		ended <- s.server.Serve(s.listener)
	}()
	select {
	case err := <-ended:
		return fmt.Errorf("serve callbacks: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := s.server.Shutdown(stop); err != nil {
		// Who has no answer sends it again, to another reconciler.
		_ = s.server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve callbacks: %w", err)
	}
	return nil
}
