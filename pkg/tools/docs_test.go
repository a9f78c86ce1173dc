package tools_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/leasehold/leasehold/pkg/tools"
)

var update = flag.Bool("update", false, "write the decision table into docs/tools.md")

const docs = "../../docs/tools.md"

// The table that people decide by is the one that the reconciler decides by.
func TestDocsDecisionTableIsWhatConvergeDecides(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- decisions: go test ./pkg/tools -run Docs -update -->\n", "<!-- /decisions -->"
	raw, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the decision table", docs)
	}
	table := decisionTable()
	if table == old {
		return
	}
	if !*update {
		t.Fatalf("%s is not what Converge decides; run this test with -update. It should be\n%s", docs, table)
	}
	if err := os.WriteFile(docs, []byte(before+begin+table+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func decisionTable() string {
	var b strings.Builder
	b.WriteString("| evidence | idempotency key, can be asked | idempotency key | deterministic id | operation query | none |\n")
	b.WriteString("|---|---|---|---|---|---|\n")
	for _, s := range situations() {
		fmt.Fprintf(&b, "| %s |", s.name)
		for i, want := range s.want {
			if want == never {
				b.WriteString("  |")
				continue
			}
			fmt.Fprintf(&b, " %s |", inWords(tools.Converge(s.capabilities(i), s.start()).Do))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func inWords(a tools.Action) string {
	switch a {
	case tools.ActionQuery:
		return "ask"
	case tools.ActionPoll:
		return "ask again"
	case tools.ActionResend:
		return "send again, same id"
	case tools.ActionWait:
		return "wait"
	case tools.ActionPerson:
		return "**person**"
	case tools.ActionConcludeSucceeded:
		return "succeeded"
	case tools.ActionConcludeFailed:
		return "failed"
	}
	return "?"
}
