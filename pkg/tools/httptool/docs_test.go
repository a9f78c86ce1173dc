package httptool

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/leasehold/leasehold/pkg/tools"
)

var update = flag.Bool("update", false, "write the table of answers into docs/tools.md")

const docs = "../../../docs/tools.md"

func TestDocsTableOfAnswersIsWhatTheAdapterReads(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- answers: go test ./pkg/tools/httptool -run Docs -update -->\n", "<!-- /answers -->"
	raw, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table of answers", docs)
	}
	table := answerTable()
	if table == old {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the adapter reads; run this test with -update. It should be\n%s", docs, table)
	}
	if err := os.WriteFile(docs, []byte(before+begin+table+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// answerTable groups the statuses that mean the same everywhere.
func answerTable() string {
	var rows []string
	of := make(map[string][]string)
	for status := 200; status < 600; status++ {
		row := answerRow(status)
		if row == answerRow(599) {
			continue // "any other"
		}
		if !slices.Contains(rows, row) {
			rows = append(rows, row)
		}
		of[row] = append(of[row], fmt.Sprint(status))
	}
	var b strings.Builder
	b.WriteString("| status | first attempt | repetition | query |\n|---|---|---|---|\n")
	for _, row := range rows {
		label := strings.Join(of[row], ", ")
		if row == answerRow(299) {
			label = "2xx but 202"
		}
		fmt.Fprintf(&b, "| %s %s\n", label, row)
	}
	fmt.Fprintf(&b, "| any other %s\n", answerRow(599))
	return b.String()
}

func answerRow(status int) string {
	first, _ := byHTTP(status, tools.ClassNone, 1)
	firstKey, _ := byHTTP(status, tools.ClassIdempotencyKey, 1)
	again, _ := byHTTP(status, tools.ClassNone, 2)
	againKey, _ := byHTTP(status, tools.ClassIdempotencyKey, 2)
	asked, _ := queryByHTTP(status)
	return fmt.Sprintf("| %s | %s | %s |", both(first, firstKey), both(again, againKey), asked)
}

func both(other, key tools.Kind) string {
	if other == key {
		return string(other)
	}
	return fmt.Sprintf("%s (idempotency_key: %s)", other, key)
}
