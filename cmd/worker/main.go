// Command worker executes runs: see package worker.
//
// To link workflows or adapters of your own, write a main like this one; see
// package runner.
package main

import (
	"os"

	"github.com/leasehold/leasehold/pkg/runner"
)

func main() { os.Exit(runner.Worker(runner.Builtins())) }
