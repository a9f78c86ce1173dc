package protocol

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func protocolDoc(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// tables returns the rows of the Markdown tables whose first header is head.
func tables(doc, head string) [][][]string {
	var all [][][]string
	var inside bool
	for line := range strings.Lines(doc) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			inside = false
			continue
		}
		var cells []string
		for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		switch {
		case cells[0] == head:
			inside = true
			all = append(all, [][]string{cells})
		case inside && !strings.HasPrefix(cells[0], "---"):
			all[len(all)-1] = append(all[len(all)-1], cells)
		}
	}
	return all
}

func TestTheDocumentShowsTheTransitionsThatTheCodeAllows(t *testing.T) {
	t.Parallel()
	found := tables(protocolDoc(t), `from \ to`)
	if len(found) != 2 {
		t.Fatalf("%d transition tables", len(found))
	}
	compare(t, found[0], RunStatuses(), RunStatus.CanBecome)
	compare(t, found[1], OperationStatuses(), OperationStatus.CanBecome)
}

func compare[S ~string](t *testing.T, table [][]string, all []S, can func(S, S) bool) {
	t.Helper()
	if len(table) != len(all)+1 || len(table[0]) != len(all)+1 {
		t.Fatalf("table of %d rows for %d states", len(table), len(all))
	}
	for _, row := range table[1:] {
		for i, cell := range row[1:] {
			from, to := S(row[0]), S(table[0][i+1])
			if !slices.Contains(all, from) || !slices.Contains(all, to) {
				t.Errorf("no state %q or %q", from, to)
			}
			if (cell == "x") != can(from, to) {
				t.Errorf("%s -> %s: the document says %q, the code %t", from, to, cell, can(from, to))
			}
		}
	}
}

func TestTheDocumentExplainsEverySentinel(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared, explained []string
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			declared = append(declared, "`"+spec.Names[0].Name+"`")
		}
		return true
	})
	for _, table := range tables(protocolDoc(t), "error") {
		for _, row := range table[1:] {
			explained = append(explained, row[0])
			if len(row) != 4 || row[1] == "" {
				t.Errorf("row of %s does not say what is known", row[0])
			}
		}
	}
	slices.Sort(declared)
	slices.Sort(explained)
	if !slices.Equal(declared, explained) {
		t.Errorf("declared %v\nexplained %v", declared, explained)
	}
}

func TestTheDocumentsExamplesOfNumbersAndResultsAreTrue(t *testing.T) {
	t.Parallel()
	doc := protocolDoc(t)
	text := func(cell string) string { return strings.Trim(cell, "`") }
	numbers := tables(doc, "written")[0][1:]
	for _, row := range numbers {
		for _, written := range strings.Split(row[0], ", ") {
			if got, err := Canonical([]byte(text(written))); err != nil || string(got) != text(row[2]) {
				t.Errorf("%s is %s, %v; the document says %s", written, got, err, row[2])
			}
		}
	}
	results := tables(doc, "in the result")[0][1:]
	for _, row := range results {
		// The example is the last thing in backquotes.
		cell := strings.TrimSuffix(row[0], "`")
		raw, want := cell[strings.LastIndex(cell, "`")+1:], text(row[1])
		if strings.HasPrefix(raw, `\`) {
			raw, want = `"`+raw+`"`, `"`+want+`"`
		}
		if got, _, err := ToStorable([]byte(raw)); err != nil || string(got) != want {
			t.Errorf("%s is stored as %s, %v; the document says %s", raw, got, err, want)
		}
	}
	if len(numbers) < 5 || len(results) < 4 {
		t.Errorf("%d examples of numbers, %d of results", len(numbers), len(results))
	}
	if !strings.Contains(doc, "at most "+strconv.Itoa(MaxOperationID)+" bytes") || !strings.Contains(doc, "deeper than\n"+strconv.Itoa(MaxDepth)) {
		t.Error("the document gives other bounds")
	}
}
