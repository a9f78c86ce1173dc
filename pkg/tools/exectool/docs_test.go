package exectool_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/leasehold/leasehold/pkg/tools/exectool"
)

var update = flag.Bool("update", false, "write the table of exit codes into docs/tools.md")

const docs = "../../../docs/tools.md"

func TestDocsTableOfExitCodesIsWhatTheAdapterReads(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- exits: go test ./pkg/tools/exectool -run Docs -update -->\n", "<!-- /exits -->"
	raw, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table of exit codes", docs)
	}
	table := exitTable(t)
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

// exitTable is what the adapter makes of a command that exits with each code.
func exitTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| exit code | of a call | of a query |\n|---|---|---|\n")
	row := func(label string, code int) {
		made := script(t, fmt.Sprintf("echo {}; exit %d", code), nil)
		fmt.Fprintf(&b, "| %s | %s | %s |\n", label, call(t, made).Kind, ask(t, made).Kind)
	}
	for _, code := range []int{
		exectool.ExitSucceeded, exectool.ExitRejected, exectool.ExitNotExecuted, exectool.ExitInProgress,
		exectool.ExitAbsent, exectool.ExitKeyConflict, exectool.ExitUnknown,
	} {
		row(fmt.Sprint(code), code)
	}
	row("any other, a signal, out of time", 1)
	return b.String()
}

func TestEveryCommandInTheDocsIsOneThatWorks(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for i, block := range strings.Split(string(raw), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		var file struct {
			Tools []struct {
				Name, Kind string
				Slots      int
				Config     yaml.Node
			}
		}
		if err := yaml.Unmarshal([]byte(block), &file); err != nil {
			t.Fatalf("block %d: %v", i, err)
		}
		for _, made := range file.Tools {
			if made.Kind != exectool.Kind {
				continue
			}
			section, err := yaml.Marshal(&made.Config)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := exectool.Factory().Describe(decode(t, string(section))); err != nil {
				t.Errorf("tool %s: %v", made.Name, err)
			}
			seen++
		}
	}
	if seen == 0 {
		t.Error("found no command in the docs")
	}
}
