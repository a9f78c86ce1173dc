package model_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/leasehold/leasehold/internal/pgtest"
)

func TestMain(m *testing.M) {
	// Sequences must be long, or no operation comes as far as a re-send. The
	// flags themselves, where somebody gives them, are read later and win.
	for name, value := range map[string]string{
		"rapid.checks": cmp.Or(os.Getenv("LEASEHOLD_TEST_MODEL_RUNS"), "40"),
		"rapid.steps":  "100",
	} {
		if err := flag.Set(name, value); err != nil {
			fmt.Fprintln(os.Stderr, "set", name, "to", value, ":", err)
			os.Exit(2)
		}
	}
	pgtest.Main(m)
}
