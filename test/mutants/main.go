// Command mutants shows that every guard of the protocol is held by a test. It
// removes one guard at a time from a copy of the tree, together with the
// trigger or constraint that repeats it, and runs the test that is named for
// it:
//
//	make mutants
//	make mutants ONLY='renew|claim'
//
// A mutant is killed only if the named test itself fails. One that does not
// compile, whose SQL PostgreSQL refuses, or whose pattern is not found exactly
// once is an error of this table and not a kill.
//
// It promises nothing about guards that are not in its table, and nothing about
// two guards removed together, unless a mutant says so.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	only := flags.String("only", "", "regular expression of the mutants to run; empty is all")
	list := flags.Bool("list", false, "print the table of docs/mutants.md and run nothing")
	limit := flags.Duration("limit", 20*time.Minute, "how long all of it may take")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	if *list {
		_, err := io.WriteString(out, markdown(chosen))
		return err
	}
	ctx, stop := context.WithTimeout(ctx, *limit)
	defer stop()
	copied, err := copyTree(ctx, ".")
	if err != nil {
		return fmt.Errorf("copy the tree: %w", err)
	}
	defer copied.remove()
	if err := checkPatterns(copied.dir, chosen); err != nil {
		return err
	}

	began := time.Now()
	if err := baseline(ctx, copied.dir, chosen); err != nil {
		return fmt.Errorf("baseline: %w", err)
	}
	fmt.Fprintf(out, "baseline: the killing tests pass without a mutant (%.0f s)\n\n", time.Since(began).Seconds())
	return runAll(ctx, copied.dir, chosen, out)
}

func choose(only string) ([]mutant, error) {
	want, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("only: %w", err)
	}
	var chosen []mutant
	for _, m := range table() {
		if want.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("only: no mutant is called like %q", only)
	}
	return chosen, nil
}

// checkPatterns finds a table that is out of date before any time is spent.
func checkPatterns(dir string, chosen []mutant) error {
	var all error
	for _, m := range chosen {
		if _, err := m.mutated(dir); err != nil {
			all = errors.Join(all, err)
		}
	}
	return all
}
