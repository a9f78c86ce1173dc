package main

import (
	"fmt"
	"slices"
	"time"
)

// incident is what we did to the system on purpose, which the judge needs to
// know to tell what should have come of it.
type incident struct {
	// frozen are the terms of workers that were stopped and resumed.
	frozen []lease
	// cancelled is the run that was cancelled; cancelledAt is when the
	// operator's command had returned.
	cancelled   string
	cancelledAt time.Time
}

// verdict is the comparison of the two ledgers.
type verdict struct {
	Runs       int
	Succeeded  int
	Cancelled  int
	Effects    int
	Duplicates int
	Lost       int
	// Unknown counts the doubts that only a person can end.
	Unknown int
	// Stale counts the refused calls that provably came from a former owner.
	Stale     int
	Takeovers int
	// problems is what makes the demo fail, in words.
	problems []string
}

// judge compares what Leasehold says with what the service says. Neither is
// asked about the other.
func judge(v *view, in incident) verdict {
	var out verdict
	out.countRuns(v)
	out.compare(v)
	out.countRefusals(v, in)
	out.checkWrites(v)
	out.checkCancel(v, in)
	for _, l := range v.leases {
		if l.Takeover {
			out.Takeovers++
		}
	}
	out.need(out.Duplicates == 0, "%d effects happened more than once", out.Duplicates)
	out.need(out.Lost == 0, "%d effects are in one ledger and not in the other", out.Lost)
	out.need(out.Cancelled >= 1, "no run was cancelled")
	out.need(out.Unknown >= 1, "no doubt was left for a person")
	out.need(out.Takeovers >= 1, "no run was taken over")
	return out
}

func (out *verdict) need(ok bool, format string, args ...any) {
	if !ok {
		out.problems = append(out.problems, fmt.Sprintf(format, args...))
	}
}

func (out *verdict) countRuns(v *view) {
	out.Runs = len(v.runs)
	for _, r := range v.runs {
		switch r.Status {
		case "succeeded":
			out.Succeeded++
		case "cancelled":
			out.Cancelled++
		case "failed":
			out.need(false, "run %s of %s failed", r.ID, r.Task)
		}
	}
}

func (out *verdict) compare(v *view) {
	for _, o := range v.operations {
		n := len(v.seen(effect, o.ID))
		out.Duplicates += max(0, n-1)
		switch o.Status {
		case "succeeded":
			if n == 0 {
				out.Lost++
				out.need(false, "%s is succeeded, and the service knows nothing of it", o.ID)
			}
		case "unknown":
			// The service may know more: that is what the doubt means.
			if o.Attention != "" {
				out.Unknown++
			} else {
				out.need(false, "%s is unknown and nobody is asked to look at it", o.ID)
			}
		case "cancelled", "failed_final":
			if n > 0 {
				out.Lost++
				out.need(false, "%s is %s, and the service did it", o.ID, o.Status)
			}
		default:
			out.need(false, "%s is still %s", o.ID, o.Status)
		}
	}
	for _, e := range v.entries {
		if e.Kind != effect {
			continue
		}
		out.Effects++
		if !slices.ContainsFunc(v.operations, func(o operation) bool { return o.ID == e.OperationID && o.Run == e.RunID }) {
			out.Lost++
			out.need(false, "the service did %s for %q, which Leasehold knows nothing of", e.EffectID, e.OperationID)
		}
	}
}

// countRefusals believes a log line only if the journal of leases has given
// its owner that epoch, and has given the run to somebody else since.
func (out *verdict) countRefusals(v *view, in incident) {
	mine := 0
	for _, r := range v.refusals {
		given := slices.ContainsFunc(v.leases, func(l lease) bool {
			return l.Run == r.Run && l.Owner == r.Owner && l.Epoch == r.Epoch
		})
		if !given || v.term(r.Run).Epoch <= r.Epoch {
			continue
		}
		out.Stale++
		// Only lost: that the run was over by then would not show that the
		// epoch was looked at.
		if r.Reason == "lease_lost" && slices.ContainsFunc(in.frozen, r.of) {
			mine++
		}
	}
	out.need(mine > 0, "no call of a frozen worker was refused under its owner and epoch")
}

// checkWrites walks the journals: every accepted write bears a term that was
// given out, and none bears an older term than a write before it.
func (out *verdict) checkWrites(v *view) {
	newest := map[string]write{}
	for _, w := range v.writes { // by run and revision
		before := newest[w.Run]
		out.need(w.Revision == before.Revision+1, "run %s has no revision %d", w.Run, before.Revision+1)
		if w.Owner == "" {
			w.Epoch = before.Epoch // the operator's cancel is of no term
		} else {
			out.need(slices.ContainsFunc(v.leases, func(l lease) bool {
				return l.Run == w.Run && l.Owner == w.Owner && l.Epoch == w.Epoch
			}), "revision %d of run %s bears a term that nobody was given: epoch %d", w.Revision, w.Run, w.Epoch)
		}
		out.need(w.Epoch >= before.Epoch, "revision %d of run %s was written by a former owner: epoch %d after epoch %d",
			w.Revision, w.Run, w.Epoch, before.Epoch)
		out.need(w.Owner == "" || !out.outdated(v, w), "revision %d of run %s was written at epoch %d when a newer one was out",
			w.Revision, w.Run, w.Epoch)
		newest[w.Run] = w
	}
}

// outdated reports whether a newer term had begun before the write. Both times
// are the database's, taken under the lock of the run's lease.
func (out *verdict) outdated(v *view, w write) bool {
	return slices.ContainsFunc(v.leases, func(l lease) bool {
		return l.Run == w.Run && l.Epoch > w.Epoch && l.At.Before(w.At)
	})
}

func (out *verdict) checkCancel(v *view, in incident) {
	out.need(in.cancelled != "" && !in.cancelledAt.IsZero(), "nothing was cancelled")
	for _, e := range v.entries {
		if e.RunID == in.cancelled && e.Kind == arrival && e.At.After(in.cancelledAt) {
			out.need(false, "%s arrived at the service %s after the cancel was acknowledged",
				e.OperationID, e.At.Sub(in.cancelledAt).Round(time.Millisecond))
		}
	}
}
