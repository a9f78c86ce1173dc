package app

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/leasehold/leasehold/internal/callbacks"
	"github.com/leasehold/leasehold/internal/config"
	"github.com/leasehold/leasehold/internal/telemetry"
	"github.com/leasehold/leasehold/pkg/store"
)

// receiver is the reconciler's listener for callbacks, with a way to the database
// of its own: a login that may keep messages and do nothing else.
type receiver struct {
	server   *callbacks.Server
	database *database
}

// newReceiver takes the port. hint is called when evidence has come that may end
// a doubt.
func newReceiver(ctx context.Context, cfg *config.Config, env Env, hint func()) (*receiver, error) {
	tools := make(map[string]callbacks.Tool)
	var names []string
	for _, t := range cfg.Tools {
		if t.Callback != nil {
			tools[t.Name] = callbacks.Tool{Secrets: t.Callback.Open, Window: t.Callback.Window}
			names = append(names, t.Name)
		}
	}
	m := telemetry.NewCallbacks(env.Registry, callbacks.Outcomes(), names...)
	r := &receiver{database: newDatabase(cfg.Database, config.RoleCallback, env.Log)}
	server, err := callbacks.Listen(ctx, callbacks.Options{
		Address:  cfg.Reconciler.Callbacks.Listen,
		CertFile: cfg.Reconciler.Callbacks.TLSCertFile,
		KeyFile:  cfg.Reconciler.Callbacks.TLSKeyFile,
		Tools:    tools,
		Store:    hinting{r.database, hint},
		Received: m.Received,
		Logger:   env.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("%w (reconciler.callbacks)", err)
	}
	r.server = server
	// A pod that cannot keep what is called back should get none of it.
	env.Health.Require("callbacks", r.database.ready)
	env.Log.InfoContext(ctx, "callbacks are received", "listen", server.Address(), "tools", len(names))
	return r, nil
}

// Run answers until ctx ends. While the database cannot be reached, the answer is
// to try again.
func (r *receiver) Run(ctx context.Context) error {
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error { return r.server.Run(ctx) })
	connected := false
	work.Go(func() error {
		_, err := r.database.connect(ctx)
		connected = err == nil
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
	err := work.Wait()
	if connected {
		r.database.close()
	}
	return err
}

// hinting says when what was kept may end a doubt.
type hinting struct {
	database *database
	hint     func()
}

func (h hinting) ReceiveCallback(ctx context.Context, c store.Callback) (store.CallbackAnswer, error) {
	st, err := h.database.current()
	if err != nil {
		return store.CallbackAnswer{}, err
	}
	a, err := st.ReceiveCallback(ctx, c)
	if err == nil && a.Outcome == store.CallbackRecorded {
		h.hint()
	}
	return a, err
}
