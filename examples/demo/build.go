package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// programs are the binaries of the demo: what is deployed, and the service
// that it calls.
func programs() map[string]string {
	return map[string]string{
		"worker":     "./cmd/worker",
		"dispatcher": "./cmd/dispatcher",
		"reconciler": "./cmd/reconciler",
		"leasehold":  "./cmd/leasehold",
		"payments":   "./examples/payments",
	}
}

// binaries returns the folder with the programs: the given one if it has them
// all, else one under dir that they are built into.
func binaries(ctx context.Context, given, dir string) (string, error) {
	if given != "" {
		for name := range programs() {
			if _, err := os.Stat(filepath.Join(given, name)); err != nil {
				return "", fmt.Errorf("find program: %w", err)
			}
		}
		return filepath.Abs(given)
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "bin")
	args := []string{"build", "-o", bin + string(filepath.Separator)}
	for _, pkg := range programs() {
		args = append(args, pkg)
	}
	build := exec.CommandContext(ctx, "go", args...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return bin, nil
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	mod := strings.TrimSpace(string(out))
	if mod == "" || mod == os.DevNull {
		return "", fmt.Errorf("find the module: run the demo inside a checkout, or give -bin")
	}
	return filepath.Dir(mod), nil
}
