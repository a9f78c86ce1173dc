package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// A pattern that matches no longer is found here, and not by who next types
// make mutants.
func TestEveryMutantAppliesToTheTreeAsItIs(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, m := range table() {
		if m.name == "" || m.removes == "" || len(m.edits) == 0 || seen[m.name] {
			t.Errorf("mutant %q is incomplete or there twice", m.name)
		}
		seen[m.name] = true
		if _, err := m.mutated(root); err != nil {
			t.Error(err)
		}
	}
	if len(seen) < 25 {
		t.Errorf("%d mutants", len(seen))
	}
}

func TestEveryKillingTestExists(t *testing.T) {
	t.Parallel()
	tests := make(map[string]string)
	for _, m := range table() {
		text, read := tests[m.by.pkg]
		if !read {
			files, err := filepath.Glob(filepath.Join(root, m.by.pkg, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			var all strings.Builder
			for _, name := range files {
				raw, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				all.Write(raw)
			}
			text = all.String()
			tests[m.by.pkg] = text
		}
		// A fuzz target's seeds are tests, too.
		if !strings.Contains(text, "\nfunc "+m.by.name+"(t *testing.T) {") && !strings.Contains(text, "\nfunc "+m.by.name+"(f *testing.F) {") {
			t.Errorf("mutant %q is to be killed by %s, which is not there", m.name, m.by)
		}
	}
}

func TestTheDocsListTheMutants(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(root, "docs", "mutants.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := markdown(table())
	if !strings.Contains(string(raw), "\n\n"+want) {
		t.Errorf("docs/mutants.md does not hold the table that go run ./test/mutants -list prints:\n%s", want)
	}
}

func TestAnEditThatDoesNotMatchExactlyOnceIsRefused(t *testing.T) {
	t.Parallel()
	const text = "FUNCTION a(\n  x;\nEND $$;\nFUNCTION b(\n  x; y;\nEND $$;\n"
	for _, c := range []struct {
		name string
		edit edit
		want string // "" is a refusal
	}{
		{"once in its function", edit{in: "FUNCTION b(", old: "x;", new: "z;"}, strings.Replace(text, "x; y", "z; y", 1)},
		{"through", edit{in: "FUNCTION b(", old: "x;", through: "y;"}, strings.Replace(text, "x; y;", "", 1)},
		{"twice in the file", edit{old: "x;"}, ""},
		{"not in its function", edit{in: "FUNCTION a(", old: "y;"}, ""},
		{"no such function", edit{in: "FUNCTION c(", old: "x;"}, ""},
		{"no end", edit{in: "FUNCTION a(", old: "x;", through: "y;"}, ""},
		{"no change", edit{in: "FUNCTION b(", old: "y;", new: "y;"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := c.edit.apply(text)
			if got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func TestOnlyAFailureOfTheNamedTestIsAKill(t *testing.T) {
	t.Parallel()
	by := test{"./pkg/a", "TestX"}
	const pkg = `"Package":"github.com/leasehold/leasehold/pkg/a"`
	for _, c := range []struct {
		name, lines string
		want        verdict
	}{
		{"it fails", `{"Action":"fail",` + pkg + `,"Test":"TestX"}`, killed},
		{"it passes", `{"Action":"pass",` + pkg + `,"Test":"TestX"}`, survived},
		{"another fails", `{"Action":"fail",` + pkg + `,"Test":"TestY"}`, broken},
		{"only a part of it is told of", `{"Action":"fail",` + pkg + `,"Test":"TestX/part"}`, broken},
		{"nothing ran", ``, broken},
		{"it does not compile", `{"ImportPath":"a","Action":"build-fail"}`, broken},
		{"it waits for ever", `{"Action":"output",` + pkg + `,"Output":"panic: test timed out after 1m\n"}`, killed},
		{
			"the schema is refused",
			`{"Action":"output",` + pkg + `,"Test":"TestX","Output":"prepare test server: migrate template: ERROR: x"}` + "\n" +
				`{"Action":"fail",` + pkg + `,"Test":"TestX"}`, broken,
		},
		{
			"a name is refused when it runs",
			`{"Action":"output",` + pkg + `,"Test":"TestX","Output":"claim: ERROR: column o.x does not exist (SQLSTATE 42703)\n"}` + "\n" +
				`{"Action":"fail",` + pkg + `,"Test":"TestX"}`, broken,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := readEvents([]byte(c.lines), "").verdict(by); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestNamesStandInATable(t *testing.T) {
	t.Parallel()
	cell := regexp.MustCompile(`[|\n]`)
	for _, m := range table() {
		if cell.MatchString(m.name + m.removes) {
			t.Errorf("%q does not fit into a table", m.name)
		}
	}
}
