package toolstest

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
)

// Suite is one adapter, as configured for one tool, and its remote.
type Suite struct {
	// Start makes a remote without history and the tool that talks to it; what
	// needs closing is closed by t.Cleanup. Required.
	Start func(t testing.TB) (Remote, tools.Tool)
	// Body is the operation's request, and Other a different one, for the
	// scenario in which a key was used for another intent. Defaults:
	// {"amount":1} and {"amount":2}.
	Body, Other json.RawMessage
	// Patience is how long a call may really take, the driver's own clock
	// aside; default 10s. An adapter that needs longer does not heed its
	// context.
	Patience time.Duration
}

// Run puts the suite through every scenario. A violation fails the test, and
// the matrix goes to its log.
func Run(t *testing.T, s Suite) Matrix {
	t.Helper()
	m := Try(t, s)
	for _, row := range m {
		for _, violation := range row.Violations {
			t.Errorf("%s: %s", row.Scenario, violation)
		}
	}
	t.Logf("conformance:\n%s", m)
	return m
}

// Try is Run without the verdict: violations are in the rows only. It fails the
// test if the suite itself cannot be used.
func Try(t testing.TB, s Suite) Matrix {
	t.Helper()
	if s.Start == nil {
		t.Fatal("toolstest: Suite.Start is missing")
	}
	if s.Patience <= 0 {
		s.Patience = 10 * time.Second
	}
	var err error
	if s.Body, err = canonical(s.Body, `{"amount":1}`); err != nil {
		t.Fatalf("toolstest: Suite.Body: %v", err)
	}
	if s.Other, err = canonical(s.Other, `{"amount":2}`); err != nil {
		t.Fatalf("toolstest: Suite.Other: %v", err)
	}
	var m Matrix
	for _, sc := range scenarios() {
		m = append(m, s.try(t, sc))
	}
	return m
}

func canonical(body json.RawMessage, usual string) (json.RawMessage, error) {
	if len(body) == 0 {
		body = json.RawMessage(usual)
	}
	out, _, err := protocol.DigestRequest(body)
	return out, err
}

func (s Suite) try(t testing.TB, sc scenario) Row {
	t.Helper()
	remote, tool := s.Start(t)
	if _, err := tools.NewRegistry(tool); err != nil {
		t.Fatalf("toolstest: the suite's tool: %v", err)
	}
	row := Row{Scenario: sc.name, Title: sc.title}
	if sc.applies != nil && !sc.applies(tool.Capabilities) {
		return row
	}
	tr := newTrial(s, remote, tool)
	if sc.fault != "" {
		order := Order{Fault: sc.fault, Struck: func() {}}
		if sc.lasts != nil {
			order.For = sc.lasts(tool.Capabilities)
		}
		if sc.fault == SlowCommit {
			order.Struck = tr.giveUp
		}
		if !remote.Arm(order) {
			return row
		}
		tr.order = order
	}
	row.Applies = true
	row.Final = tr.run(sc)
	row.Allowed = sc.allowed(tool.Capabilities)
	row.Arrivals, row.Effects = remote.Arrivals(tr.id), remote.Effects(tr.id)
	row.Queries = tr.queries
	row.Violations = tr.violations
	if !slices.Contains(row.Allowed, row.Final) {
		row.Violations = append(row.Violations, fmt.Sprintf(
			"ended as %q, but class %q allows %q only (last outcome: %s, %s)",
			row.Final, tool.Capabilities.Class, row.Allowed, tr.last.Kind, tr.last.Detail))
	}
	return row
}
