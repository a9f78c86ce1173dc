// Command holder makes protected calls with a worker's store, one for each line
// of its standard input, and says on standard output what became of each. It has
// no heartbeat and no trust of its own: it is what a stale worker would be if
// nothing but the database stopped it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/test/acceptance/internal/holding"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	st, err := store.Open(ctx, store.Config{DSN: os.Getenv("LEASEHOLD_DATABASE_DSN"), AppName: os.Getenv("HOLDER_NAME")})
	if err != nil {
		return err
	}
	defer st.Close()
	out := json.NewEncoder(os.Stdout)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var c holding.Command
		if err := json.Unmarshal(in.Bytes(), &c); err != nil {
			return fmt.Errorf("read command: %w", err)
		}
		if err := out.Encode(call(ctx, st, c)); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
	return nil
}

func call(ctx context.Context, st *store.Store, c holding.Command) holding.Answer {
	ttl := time.Duration(c.TTLMS) * time.Millisecond
	a := holding.Answer{Lease: c.Lease, Revision: c.Expected}
	var err error
	switch c.Do {
	case "open": // connections of both kinds exist from here on
		_, _ = st.RenewLeases(ctx, []protocol.Lease{c.Lease}, ttl)
		err = st.Ping(ctx)
	case "acquire":
		var got store.Acquired
		got, err = st.AcquireLease(ctx, c.Lease.RunID, protocol.NewOwner(), ttl, "holder")
		a.Lease, a.Revision = got.Lease, got.Revision
	case "renew":
		var list []store.RenewOutcome
		if list, err = st.RenewLeases(ctx, []protocol.Lease{c.Lease}, ttl); err == nil {
			err = list[0].Err
		}
	case "confirm":
		err = st.ConfirmLease(ctx, c.Lease, ttl)
	case "release":
		err = st.ReleaseLease(ctx, c.Lease)
	default:
		r := st.Commit(ctx, store.Write{
			Lease: c.Lease, Expected: c.Expected, Call: c.Call, Kind: store.WriteKind(c.Do), StepID: "written",
			Payload: c.Payload, Operations: c.Operations, TTL: ttl,
		})
		a.Revision, err = r.Revision, r.Err
	}
	a.Outcome = outcome(err)
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

func outcome(err error) string {
	for name, sentinel := range map[string]error{
		"lease_held": protocol.ErrLeaseHeld, "lease_lost": protocol.ErrLeaseLost, "conflict": protocol.ErrConflict,
		"terminal": protocol.ErrTerminal, "busy": protocol.ErrBusy, "outcome_unknown": protocol.ErrOutcomeUnknown,
		"open_operations": protocol.ErrOpenOperations, "not_found": protocol.ErrNotFound,
	} {
		if errors.Is(err, sentinel) {
			return name
		}
	}
	if err != nil {
		return "error"
	}
	return "ok"
}
