package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// leasehold runs the operator's tool, as a person would, and decodes what it
// prints into into, which may be nil.
func (s *stage) leasehold(ctx context.Context, into any, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "leasehold"), append(args, "-o", "json")...)
	cmd.Env = environment("LEASEHOLD_CONFIG="+s.config, "USER=demo")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("leasehold %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("leasehold %s: printed %q: %w", strings.Join(args, " "), out, err)
	}
	return nil
}

// create submits tasks from a file, as a person would.
func (s *stage) create(ctx context.Context, tasks ...task) error {
	content, err := json.MarshalIndent(tasks, "", "  ")
	if err != nil {
		return fmt.Errorf("create tasks: %w", err)
	}
	path := filepath.Join(s.dir, tasks[0].ID+".json")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("create tasks: %w", err)
	}
	return s.leasehold(ctx, nil, "task", "create", "-f", path)
}

// desk lists the operations that wait for a person, as that person would.
func (s *stage) desk(ctx context.Context) ([]string, error) {
	var list []struct {
		OperationID string `json:"operation_id"`
	}
	err := s.leasehold(ctx, &list, "operation", "list", "--needs-person")
	ids := make([]string, len(list))
	for i, o := range list {
		ids[i] = o.OperationID
	}
	return ids, err
}
