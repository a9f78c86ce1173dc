package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// baseline proves that the killing tests pass where nothing is broken: only
// then does a failure say something.
func baseline(ctx context.Context, dir string, chosen []mutant) error {
	byPackage := make(map[string][]test)
	var pkgs []string
	for _, m := range chosen {
		if !slices.Contains(pkgs, m.by.pkg) {
			pkgs = append(pkgs, m.by.pkg)
		}
		byPackage[m.by.pkg] = append(byPackage[m.by.pkg], m.by)
	}
	for _, pkg := range pkgs {
		r, err := goTest(ctx, dir, baselineLimit, byPackage[pkg]...)
		if err != nil {
			return err
		}
		for _, t := range byPackage[pkg] {
			if r.broken != "" || !r.passed[t.key()] {
				return fmt.Errorf("%s does not pass: %s\n%s", t, r.broken, tail(r.output))
			}
		}
	}
	return nil
}

type verdict string

const (
	killed   verdict = "killed"
	survived verdict = "SURVIVED"
	broken   verdict = "BROKEN"
)

func runAll(ctx context.Context, dir string, chosen []mutant, out io.Writer) error {
	count := 0
	var faults []string
	fmt.Fprintf(out, "%-8s %6s  %-44s %s\n", "verdict", "sec", "mutant", "killed by")
	for _, m := range chosen {
		began := time.Now()
		v, why, err := try(ctx, dir, m)
		if err != nil {
			return fmt.Errorf("mutant %q: %w", m.name, err)
		}
		fmt.Fprintf(out, "%-8s %6.1f  %-44s %s\n", v, time.Since(began).Seconds(), m.name, m.by)
		if v == killed {
			count++
			continue
		}
		faults = append(faults, fmt.Sprintf("%s: %s (%s)\n%s", m.name, v, m.removes, why))
	}
	for _, f := range faults {
		fmt.Fprintf(out, "\n%s\n", f)
	}
	fmt.Fprintf(out, "\n%d mutants, %d killed\n", len(chosen), count)
	if count != len(chosen) {
		return errors.New("a guard can be removed without a test noticing, or a mutant is broken")
	}
	return nil
}

// try runs one mutant's test on the tree without its guard.
func try(ctx context.Context, dir string, m mutant) (v verdict, why string, err error) {
	files, err := m.mutated(dir)
	if err != nil {
		return "", "", err
	}
	var r result
	if err := with(dir, files, func() (err error) {
		r, err = goTest(ctx, dir, testLimit, m.by)
		return err
	}); err != nil {
		return "", "", err
	}
	v = r.verdict(m.by)
	if v == broken {
		return v, r.broken + "\n" + tail(r.output), nil
	}
	return v, "", nil
}

func (r result) verdict(by test) verdict {
	switch {
	case r.broken != "":
		return broken
	case r.failed[by.key()]:
		return killed
	case strings.Contains(r.output, "panic: test timed out"):
		// What it waited for never came. go test names no test then.
		return killed
	case r.passed[by.key()]:
		return survived
	}
	return broken
}

// tail is the end of an output, where the reason stands.
func tail(s string) string {
	const most = 3000
	if len(s) > most {
		return "..." + s[len(s)-most:]
	}
	return s
}
