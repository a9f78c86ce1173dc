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
	j := judge{set: set, file: file, test: strings.HasSuffix(name, "_test.go"), faults: &faults}
	ast.Walk(&j, file)
	return faults
}

// judge walks one file.
type judge struct {
	set    *token.FileSet
	file   *ast.File
	test   bool
	bubble bool // below synctest.Test, where sleeping moves a fake clock
	fuzz   bool // below f.Fuzz, where skipping discards one input
	faults *[]string
}

// inner judges what is below a node by other circumstances.
func (j *judge) inner(bubble, fuzz bool) *judge {
	return &judge{set: j.set, file: j.file, test: j.test, bubble: bubble, fuzz: fuzz, faults: j.faults}
}

// inBubble reports whether all calls of helper f of this file are made below
// synctest.Test: either f itself calls synctest.Wait, which panics elsewhere, or
// every test of the file runs in a bubble.
func inBubble(file *ast.File, f *ast.FuncDecl) bool {
	if isTest(f) {
		return false // what is below its synctest.Test is judged there
	}
	if calls(f, "Wait") {
		return true
	}
	tests := 0
	for _, d := range file.Decls {
		if other, ok := d.(*ast.FuncDecl); ok && isTest(other) {
			if !calls(other, "Test") {
				return false
			}
			tests++
		}
	}
	return tests > 0
}

func isTest(f *ast.FuncDecl) bool {
	return f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test")
}

// calls reports whether n holds a call of synctest's function of that name.
func calls(n ast.Node, name string) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			on, called := selector(call)
			found = found || on == "synctest" && called == name
		}
		return true
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
		if j.test && inBubble(j.file, n) {
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
		{"sleep in a helper that waits", "pkg/p/a_test.go", inFunc("time.Sleep(1); synctest.Wait()"), ""},
		{"sleep in a helper of bubbles", "pkg/p/a_test.go", inFunc("time.Sleep(1)") + "func TestX(t *testing.T) { synctest.Test(t, f) }\n", ""},
		{"sleep in a helper of tests", "pkg/p/a_test.go", inFunc("time.Sleep(1)") + "func TestX(t *testing.T) { f() }\n", "wait for a condition"},
		{"sleep beside a bubble", "pkg/p/a_test.go", "package p\nfunc TestX(t *testing.T) { synctest.Test(t, f); time.Sleep(1) }\n", "wait for a condition"},
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
