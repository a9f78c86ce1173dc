package reconciler

import (
	"context"
	"fmt"
	"sort"
)

// measure reports the state of the ledger. Names of tools that this process
// does not have are folded into one number: they come from the database, and a
// label must not grow with what somebody planned.
func (r *Reconciler) measure(ctx context.Context) (more bool, err error) {
	stats, err := r.store.LedgerStats(ctx)
	if err != nil {
		return false, fmt.Errorf("measure ledger: %w", err)
	}
	var other Unrouted
	var prepared, unknown []string
	stats.PreparedByTool, prepared, other.Prepared = r.routed(stats.PreparedByTool)
	stats.UnknownByTool, unknown, other.Unknown = r.routed(stats.UnknownByTool)
	r.hooks.Stats(stats, other)
	if other != (Unrouted{}) {
		r.log.WarnContext(ctx, "operations wait for tools that this process does not have",
			"prepared", other.Prepared, "prepared_tools", prepared,
			"unknown", other.Unknown, "unknown_tools", unknown)
	}
	return false, nil
}

// routed returns the counts of known tools (all of them, zeros included, so
// that a gauge goes back to zero), and the names and total of the others.
func (r *Reconciler) routed(byTool map[string]int64) (known map[string]int64, others []string, total int64) {
	known = make(map[string]int64)
	for _, name := range r.tools.Names() {
		known[name] = byTool[name]
	}
	for name, n := range byTool {
		if _, ok := known[name]; !ok && n > 0 {
			others = append(others, name)
			total += n
		}
	}
	sort.Strings(others)
	return known, others, total
}
