package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutant is one guard taken away.
type mutant struct {
	name string
	// removes says what the system does no longer.
	removes string
	edits   []edit
	by      test
}

// edit is one change of one file.
type edit struct {
	file string
	// in is the beginning of the function that holds old, in SQL or Go; empty:
	// old is looked for in the whole file. It must be there exactly once.
	in string
	// old must be there exactly once.
	old string
	// through, if given, is where the replaced text ends: the first one after
	// old, included.
	through string
	// new takes old's place.
	new string
}

// test names the test that must fail.
type test struct{ pkg, name string }

func (t test) String() string { return strings.TrimPrefix(t.pkg, "./") + " " + t.name }

// mutated returns the changed files' content by name.
func (m mutant) mutated(dir string) (map[string]string, error) {
	files := make(map[string]string)
	for _, e := range m.edits {
		text, changed := files[e.file]
		if !changed {
			raw, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(e.file)))
			if err != nil {
				return nil, fmt.Errorf("mutant %q did not apply: %w", m.name, err)
			}
			text = string(raw)
		}
		next, err := e.apply(text)
		if err != nil {
			return nil, fmt.Errorf("mutant %q did not apply: %w", m.name, err)
		}
		files[e.file] = next
	}
	return files, nil
}

func (e edit) apply(text string) (string, error) {
	from, to := 0, len(text)
	if e.in != "" {
		if n := strings.Count(text, e.in); n != 1 {
			return "", fmt.Errorf("%s has %q %d times, not once", e.file, e.in, n)
		}
		from = strings.Index(text, e.in)
		to = endOfFunction(text, from)
	}
	section := text[from:to]
	if n := strings.Count(section, e.old); n != 1 {
		return "", fmt.Errorf("%s has, in %q, %d times and not once:\n%s", e.file, e.in, n, e.old)
	}
	start := from + strings.Index(section, e.old)
	end := start + len(e.old)
	if e.through != "" {
		n := strings.Index(text[end:to], e.through)
		if n < 0 {
			return "", fmt.Errorf("%s has no %q after %q", e.file, e.through, e.old)
		}
		end += n + len(e.through)
	}
	out := text[:start] + e.new + text[end:]
	if out == text {
		return "", fmt.Errorf("%s is not changed by replacing %q", e.file, e.old)
	}
	return out, nil
}

// endOfFunction is the end of the first line after from that closes a function
// at the left margin, in the style of our SQL and of gofmt.
func endOfFunction(text string, from int) int {
	at := from
	for at < len(text) {
		next := strings.IndexByte(text[at:], '\n')
		if next < 0 {
			return len(text)
		}
		at += next + 1
		line, _, _ := strings.Cut(text[at:], "\n")
		if strings.HasPrefix(line, "END $$") || strings.HasPrefix(line, "$$") || line == "}" {
			return at + len(line)
		}
	}
	return len(text)
}
