package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasehold/leasehold/pkg/store"
)

// pageFlags are the flags of a list.
type pageFlags struct {
	limit  int
	before string
}

func (p *pageFlags) add(cmd *cobra.Command) {
	cmd.Flags().IntVar(&p.limit, "limit", 50, "at most so many (1 to 1000)")
	cmd.Flags().StringVar(&p.before, "before", "", "only those created before this time (RFC 3339): the next page")
}

func (p *pageFlags) page() (store.Page, error) {
	if p.limit < 1 || p.limit > 1000 {
		return store.Page{}, usageError{fmt.Errorf("--limit must be between 1 and 1000, got %d", p.limit)}
	}
	page := store.Page{Limit: p.limit}
	if p.before != "" {
		t, err := time.Parse(time.RFC3339Nano, p.before)
		if err != nil {
			return store.Page{}, usageError{fmt.Errorf("--before must be a time such as 2026-12-01T12:00:00Z: %w", err)}
		}
		page.Before = t
	}
	return page, nil
}
