package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// result is what one run of go test said.
type result struct {
	passed, failed map[string]bool // top-level tests by package and name
	// broken says why the tests proved nothing: they did not compile, or
	// PostgreSQL refused the SQL.
	broken string
	output string
}

// event is a line of go test -json.
type event struct {
	Action, Package, ImportPath, Test, Output string
}

// testLimit bounds one mutant: some make their test wait for what never comes.
// Before there is a mutant, all the tests of a package share baselineLimit.
const (
	testLimit     = 60 * time.Second
	baselineLimit = 5 * time.Minute
)

// goTest runs tests by name. The race detector stays off: the tests that kill
// do so by what the database says.
func goTest(ctx context.Context, dir string, limit time.Duration, tests ...test) (result, error) {
	var pkgs, names []string
	for _, t := range tests {
		if !slices.Contains(pkgs, t.pkg) {
			pkgs = append(pkgs, t.pkg)
		}
		if !slices.Contains(names, t.name) {
			names = append(names, t.name)
		}
	}
	args := []string{
		"test", "-json", "-count=1", "-failfast", "-timeout", limit.String(), "-vet=off",
		"-run", "^(" + strings.Join(names, "|") + ")$",
	}
	cmd := exec.CommandContext(ctx, "go", append(args, pkgs...)...)
	cmd.Dir = dir
	cmd.WaitDelay = 10 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if ctx.Err() != nil || (err != nil && !errors.As(err, &exit)) {
		return result{}, fmt.Errorf("go test: %w: %s", errors.Join(err, ctx.Err()), stderr.String())
	}
	return readEvents(out, stderr.String()), nil
}

func readEvents(out []byte, stderr string) result {
	r := result{passed: map[string]bool{}, failed: map[string]bool{}}
	var text strings.Builder
	text.WriteString(stderr)
	for line := range bytes.Lines(out) {
		var e event
		if json.Unmarshal(line, &e) != nil {
			text.Write(line) // go test itself, on something it could not begin
			continue
		}
		text.WriteString(e.Output)
		top, _, _ := strings.Cut(e.Test, "/")
		switch {
		case e.Action == "build-fail":
			r.broken = "did not compile"
		case e.Test == "" || top != e.Test:
		case e.Action == "pass":
			r.passed[key(e.Package, e.Test)] = true
		case e.Action == "fail":
			r.failed[key(e.Package, e.Test)] = true
		}
	}
	r.output = text.String()
	if r.broken == "" {
		r.broken = refusedSQL(r.output)
	}
	return r
}

// notSQL matches what PostgreSQL says of text that is no statement, of names
// that do not exist and of values of the wrong type. A test that fails for it
// says nothing about the guard.
var notSQL = regexp.MustCompile(`ERROR: [^\n]*\(SQLSTATE 42(601|703|883|P01|P02|804|702|P08|P13)\)`)

func refusedSQL(output string) string {
	if strings.Contains(output, "migrate template") || strings.Contains(output, "prepare test server") {
		return "did not migrate"
	}
	if m := notSQL.FindString(output); m != "" {
		return "is no valid SQL: " + m
	}
	return ""
}

// key drops the module from the package's path.
func key(pkg, name string) string {
	_, rel, _ := strings.Cut(pkg, "leasehold/leasehold/")
	return "./" + rel + " " + name
}

func (t test) key() string { return t.pkg + " " + t.name }
