package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/store"
	"github.com/leasehold/leasehold/test/chaos/remote"
)

// breach is one promise that was broken, and where.
type breach struct {
	What    string `json:"what"`
	Subject string `json:"subject"`
	Detail  string `json:"detail"`
}

// The breaches.
const (
	duplicate    = "duplicate effect"
	lost         = "lost"
	falseFailure = "false failure"
	illegal      = "illegal state"
	unsettled    = "did not converge"
)

// judge compares the two ledgers, and what people were told with what is.
func judge(a account, records map[string]remote.Record, l *workload) []breach {
	var out []breach
	report := func(what, subject, format string, args ...any) {
		out = append(out, breach{what, subject, fmt.Sprintf(format, args...)})
	}
	known := make(map[string]operation, len(a.Operations))
	for _, o := range a.Operations {
		known[o.ID] = o
		r := records[o.ID]
		switch status := protocol.OperationStatus(o.Status); status {
		case protocol.OperationSucceeded:
			if r.Effects == 0 {
				report(lost, o.ID, "succeeded here, and the remote has no effect")
			}
		case protocol.OperationFailedFinal, protocol.OperationCancelled:
			if r.Effects > 0 {
				report(falseFailure, o.ID, "%s here, and the remote has its effect", o.Status)
			}
			if status == protocol.OperationCancelled && r.Arrivals+r.Refusals > 0 {
				report(illegal, o.ID, "cancelled before it was sent, and yet it was sent")
			}
		case protocol.OperationPrepared, protocol.OperationDispatching, protocol.OperationUnknown:
			report(unsettled, o.ID, "%s of %s, %s", o.Status, o.Tool, deref(o.Attention))
		}
	}
	for id, r := range records {
		if _, ok := known[id]; !ok && r.Arrivals+r.Refusals > 0 {
			report(lost, id, "the remote has %d requests for it, and it is in no row here", r.Arrivals+r.Refusals)
		}
		if r.Effects > 1 {
			report(duplicate, id, "%d effects of %d requests to %s", r.Effects, r.Arrivals, r.Endpoint)
		}
		if r.Endpoint == remote.Plain && r.Arrivals > 1 {
			report(duplicate, id, "sent %d times to a tool that cannot recognise it", r.Arrivals)
		}
		if r.Altered {
			report(illegal, id, "sent with different contents under one id")
		}
	}
	for run, status := range a.Runs {
		if !protocol.RunStatus(status).Terminal() {
			report(unsettled, run, "the run is %s", status)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for task, acknowledged := range l.created {
		if acknowledged && !a.Tasks[string(task)] {
			report(lost, string(task), "its creation was acknowledged")
		}
	}
	for run := range l.cancelled {
		if status := a.Runs[run.String()]; status != string(protocol.RunCancelled) {
			report(lost, run.String(), "its cancellation was acknowledged, and it is %q", status)
		}
	}
	slices.SortFunc(out, func(a, b breach) int { return cmp.Compare(a.What+a.Subject, b.What+b.Subject) })
	return out
}

// illegalStates are the invariants that do not hold. Where the database's clock
// was stepped, the order of dates shows nothing.
func illegalStates(findings []store.Finding, clockStepped bool) []breach {
	var out []breach
	for _, f := range findings {
		if f.Severity != store.SeverityError || clockStepped && f.ByClock {
			continue
		}
		for _, row := range f.Rows {
			out = append(out, breach{illegal, row.Subject, f.Code + ": " + row.Detail})
		}
	}
	return out
}

func deref(s *string) string {
	if s == nil {
		return "which nobody is told of"
	}
	return *s
}
