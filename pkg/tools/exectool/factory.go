package exectool

import (
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/internal/secret"
)

// Kind is the value of kind: for a tool of this package.
const Kind = "exec"

// Factory makes adapters of kind exec.
func Factory() tools.Factory {
	return tools.Factory{
		Kind:   Kind,
		Config: func() any { return defaults() },
		Describe: func(cfg any) (tools.Capabilities, error) {
			c, err := check(cfg.(*Config))
			if err != nil {
				return tools.Capabilities{}, err
			}
			return c.caps, nil
		},
		New: func(_ string, cfg any, _ tools.Deps) (tools.Adapter, tools.Capabilities, error) {
			return newAdapter(cfg.(*Config))
		},
	}
}

func newAdapter(cfg *Config) (tools.Adapter, tools.Capabilities, error) {
	c, err := check(cfg)
	if err != nil {
		return nil, tools.Capabilities{}, err
	}
	// What would otherwise be found out with the first operation.
	known := &secret.Redactor{}
	_, envErr := c.environ(known)
	errs := []error{envErr, program("command", cfg.Command), program("query", cfg.Query), directory(cfg.Dir)}
	if err := errors.Join(errs...); err != nil {
		return nil, tools.Capabilities{}, err
	}
	a := &adapter{checked: c, known: known}
	if !c.caps.Query {
		return a, c.caps, nil
	}
	return asker{a}, c.caps, nil
}

func program(key string, argv []string) error {
	if len(argv) == 0 {
		return nil
	}
	if _, err := exec.LookPath(argv[0]); err != nil {
		return fmt.Errorf("%s[0]: %w", key, err)
	}
	return nil
}

func directory(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("dir: %w", err)
	case !info.IsDir():
		return fmt.Errorf("dir: %s is no directory", path)
	}
	return nil
}
