package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// listenProbe is how often a silent listening connection is asked whether it
// still lives. A NAT or proxy that dropped it without a FIN would otherwise
// leave the listener deaf for ever (timgit/pg-boss#850).
const listenProbe = 15 * time.Second

// awaitHint waits for one notification.
func (s *Store) awaitHint(ctx context.Context, c *pgx.Conn) error {
	for {
		wait, stop := context.WithTimeout(ctx, listenProbe)
		_, err := c.WaitForNotification(wait)
		stop()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		probe, stop := context.WithTimeout(ctx, 2*time.Second)
		err = c.Ping(probe)
		stop()
		if err != nil {
			return err
		}
	}
}

// channelIdentifier quotes a channel name; LISTEN takes no parameter.
func channelIdentifier(channel string) string { return pgx.Identifier{channel}.Sanitize() }
