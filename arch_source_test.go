package leasehold_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const (
	// maxFileLines: a longer file holds two nouns; split it.
	maxFileLines = 500
	// maxMainLines: a longer main holds logic that no other main can link.
	maxMainLines = 60
)

// machinePath matches an absolute path of the machine that somebody worked on.
var machinePath = regexp.MustCompile(`(^|[^\w.])/(home|Users|root|work)/\w+`)

// homebrewOnLinux is a home folder that is the same on every machine.
const homebrewOnLinux = "/home/linuxbrew"

// writesRows matches text that begins like a query on rows. DDL is left out:
// it takes no parameters, so identifiers must be quoted into it. So are tests,
// which walk the catalogue.
var writesRows = regexp.MustCompile(`(?i)^\s*(--[^\n]*\n\s*)*(select\s|insert\s+into\s|update\s|delete\s+from\s|with\s+\w+\s+as\s)`)

func TestSourceFilesKeepTheHouseRules(t *testing.T) {
	t.Parallel()
	files := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && skippedFolder(name):
			return fs.SkipDir
		case d.IsDir() || !isSource(name):
			return nil
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files++
		for _, fault := range sourceFaults(filepath.ToSlash(name), src) {
			t.Error(fault)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Fatal("no source file found")
	}
}

// skippedFolder: what is built or kept at run time, and version control.
func skippedFolder(name string) bool {
	base := filepath.Base(name)
	return name == "bin" || base == ".git" || base == ".leasehold" || base == "node_modules" || base == "testdata"
}

func isSource(name string) bool {
	switch filepath.Ext(name) {
	case ".go", ".sql", ".sh", ".yaml", ".yml", ".md":
		return true
	}
	base := filepath.Base(name)
	return base == "Makefile" || base == "Dockerfile" || filepath.Dir(name) == ".ci"
}

// sourceFaults judges one file by its text and, if it is Go, by its syntax.
func sourceFaults(name string, src []byte) []string {
	var faults []string
	lines := bytes.Count(src, []byte("\n"))
	switch ext := path.Ext(name); {
	case ext != ".md" && ext != ".yaml" && lines > maxFileLines:
		faults = append(faults, fmt.Sprintf("%s has %d lines, over %d: it holds two nouns; split it", name, lines, maxFileLines))
	case strings.HasPrefix(name, "cmd/") && path.Base(name) == "main.go" && lines >= maxMainLines:
		faults = append(faults, fmt.Sprintf("%s has %d lines, not under %d: what it does, a user's own main could not link", name, lines, maxMainLines))
	}
	for i, line := range bytes.Split(src, []byte("\n")) {
		if m := machinePath.Find(line); m != nil && !bytes.HasSuffix(m, []byte(homebrewOnLinux)) {
			faults = append(faults, fmt.Sprintf("%s:%d: %q exists on one machine only", name, i+1, m))
		}
	}
	if path.Ext(name) != ".go" {
		return faults
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
	if err != nil {
		// The compiler says it better, and at the right time.
		return faults
	}
	j := judge{set: set, test: strings.HasSuffix(name, "_test.go"), faults: &faults}
	ast.Walk(&j, file)
	return faults
}

// judge walks one file.
type judge struct {
	set    *token.FileSet
	test   bool
	bubble bool // below synctest.Test, where sleeping moves a fake clock
	fuzz   bool // below f.Fuzz, where skipping discards one input
	faults *[]string
}

// inner judges what is below a node by other circumstances.
func (j *judge) inner(bubble, fuzz bool) *judge {
	return &judge{set: j.set, test: j.test, bubble: bubble, fuzz: fuzz, faults: j.faults}
}

// waitsInBubble: synctest.Wait panics outside a bubble, so a helper that calls
// it is only ever called in one.
func waitsInBubble(f *ast.FuncDecl) bool {
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		on, name := selector(call)
		found = found || on == "synctest" && name == "Wait"
		return on != "synctest" || name != "Test"
	})
	return found
}

// Visit implements ast.Visitor.
func (j *judge) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.FuncDecl:
		if !j.test && n.Recv == nil && n.Name.Name == "init" {
			j.fault(n, "init() registers behind the reader's back; pass what is needed")
		}
		if j.test && waitsInBubble(n) {
			return j.inner(true, j.fuzz)
		}
	case *ast.GenDecl:
		if n.Tok == token.CONST {
			return nil // constants joined to a constant are one
		}
	case *ast.BinaryExpr:
		if !j.test && n.Op == token.ADD && writesRows.MatchString(leftmost(n)) {
			j.fault(n, "SQL is assembled with +: a query is a constant, values are parameters")
			return nil // its left operand would be reported again
		}
	case *ast.CallExpr:
		return j.call(n)
	}
	return j
}

func (j *judge) call(n *ast.CallExpr) ast.Visitor {
	on, name := selector(n)
	switch {
	case on == "synctest" && name == "Test", on == "f" && name == "Fuzz":
		return j.inner(j.bubble || on == "synctest", j.fuzz || on == "f")
	case j.test && !j.bubble && on == "time" && name == "Sleep":
		j.fault(n, "a test that sleeps is slow when it passes and wrong when the machine is slow; wait for a condition with a limit, or use synctest")
	case j.test && !j.fuzz && (on == "t" || on == "b" || on == "f" || on == "tb") && (name == "Skip" || name == "Skipf" || name == "SkipNow"):
		j.fault(n, "a skipped test passes without having looked")
	case on == "testing" && name == "Short":
		j.fault(n, "a skipped test passes without having looked")
	case !j.test && on == "fmt" && strings.Contains(name, "rint") && len(n.Args) > 0:
		for _, arg := range n.Args {
			if writesRows.MatchString(text(arg)) && strings.Contains(text(arg), "%") {
				j.fault(n, "SQL is assembled with fmt."+name+": a query is a constant, values are parameters")
			}
		}
	}
	return j
}

func (j *judge) fault(n ast.Node, why string) {
	*j.faults = append(*j.faults, fmt.Sprintf("%s: %s", j.set.Position(n.Pos()), why))
}

// selector returns x and f of a call x.f(...).
func selector(n *ast.CallExpr) (on, name string) {
	sel, ok := n.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	if id, ok := sel.X.(*ast.Ident); ok {
		on = id.Name
	}
	return on, sel.Sel.Name
}

// leftmost returns the literal that a chain of + begins with.
func leftmost(e ast.Expr) string {
	for {
		b, ok := e.(*ast.BinaryExpr)
		if !ok {
			return text(e)
		}
		e = b.X
	}
}

// text returns a string literal's value, or "".
func text(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return s
}

func TestSourceRulesCatchEachKindOfFault(t *testing.T) {
	t.Parallel()
	inFunc := func(body string) string { return "package p\nfunc f() {\n" + body + "\n}\n" }
	tests := []struct {
		name, file, src, want string
	}{
		{"long file", "pkg/p/a.go", "package p\n" + strings.Repeat("//\n", maxFileLines), "holds two nouns"},
		{"long main", "cmd/worker/main.go", "package main\n" + strings.Repeat("//\n", maxMainLines), "could not link"},
		{"machine path", "docs/a.md", "see /" + "home/me/notes\n", "one machine only"},
		{"init", "pkg/p/a.go", "package p\nfunc init() {}\n", "behind the reader's back"},
		{"sleeping test", "pkg/p/a_test.go", inFunc("time.Sleep(1)"), "wait for a condition"},
		{"skipped test", "pkg/p/a_test.go", inFunc(`t.Skip("later")`), "without having looked"},
		{"short test", "pkg/p/a_test.go", inFunc("if testing.Short() {}"), "without having looked"},
		{"query made by Sprintf", "pkg/p/a.go", inFunc(`_ = fmt.Sprintf("select * from %s", x)`), "assembled with fmt.Sprintf"},
		{"query made by concatenation", "pkg/p/a.go", inFunc("_ = `-- name: X\nUPDATE t SET a = ` + x + `!`"), "assembled with +"},
		{"sleep in a bubble", "pkg/p/a_test.go", inFunc("synctest.Test(t, func(t *testing.T) { time.Sleep(1) })"), ""},
		{"sleep in a bubble's helper", "pkg/p/a_test.go", inFunc("time.Sleep(1); synctest.Wait()"), ""},
		{"sleep beside a bubble", "pkg/p/a_test.go", inFunc("synctest.Test(t, func(t *testing.T) { synctest.Wait() }); time.Sleep(1)"), "wait for a condition"},
		{"query of constants", "pkg/p/a.go", "package p\nconst q = `SELECT ` + columns + ` FROM t`\n", ""},
		{"a sentence made by concatenation", "pkg/p/a.go", inFunc(`_ = "selected " + x`), ""},
		{"discarded fuzz input", "pkg/p/a_test.go", inFunc("f.Fuzz(func(t *testing.T, s string) { t.Skip() })"), ""},
		{"Homebrew's folder on Linux", "pkg/p/a.go", inFunc(`_ = "/home/linuxbrew/.linuxbrew"`), ""},
		{"a method named init", "pkg/p/a.go", "package p\nfunc (T) init() {}\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := strings.Join(sourceFaults(tt.file, []byte(tt.src)), "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("faults %q, want %q", got, tt.want)
			}
		})
	}
}
