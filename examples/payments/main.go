// Command payments is an example of the kind of service that Leasehold calls:
// a separate process with its own durable ledger, which knows nothing of
// Leasehold.
//
// It promises that every request that arrives and every effect that it causes
// is a line of its ledger, on disk before anything else happens; that
// POST /charges is idempotent by its Idempotency-Key and can be queried; that
// POST /shipments is idempotent by the id in its body and can be queried; and
// that after a kill -9 and a restart it still knows all of this.
//
// It does not promise anything about POST /notifications: each one that arrives
// is an effect, and nobody can ask afterwards whether it did. There is no
// authentication, and POST /faults makes it misbehave on demand: it is for
// demonstrations and tests.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8090", "address to listen on; port 0 takes a free one")
	path := flag.String("ledger", "payments.jsonl", "file of the durable ledger")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr, *path); err != nil {
		fmt.Fprintln(os.Stderr, "payments:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. Its one line on stdout says where it listens.
func run(ctx context.Context, addr, path string) (err error) {
	ledger, err := OpenLedger(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()

	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	service := NewService(ledger, slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	server := &http.Server{Handler: service.Handler(), ReadHeaderTimeout: 5 * time.Second}

	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Printf("listening on http://%s\n", listener.Addr())

	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	service.faults.clear()
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(deadline); err != nil {
		return fmt.Errorf("shut down: %w", err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
