package exectool

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/leasehold/leasehold/pkg/protocol"
	"github.com/leasehold/leasehold/pkg/tools"
	"github.com/leasehold/leasehold/pkg/tools/internal/secret"
)

// variable is an environment variable that is ready to be read.
type variable struct {
	name   string
	value  string
	secret secret.Source // nil if value is all
}

// checked is a configuration without mistakes.
type checked struct {
	*Config

	env  []variable
	caps tools.Capabilities
}

// check opens no secret and looks at no file: a worker, which only plans, has
// neither.
func check(cfg *Config) (*checked, error) {
	c := &checked{Config: cfg, caps: cfg.Capabilities.capabilities(len(cfg.Query) > 0)}
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if len(cfg.Command) == 0 {
		refuse("command: is missing")
	}
	for _, argv := range []struct {
		key  string
		list []string
	}{{"command", cfg.Command}, {"query", cfg.Query}} {
		for i, arg := range argv.list {
			if strings.ContainsRune(arg, 0) {
				refuse("%s[%d]: holds a NUL", argv.key, i)
			}
			// What a bare name finds depends on who starts the process.
			if i == 0 && !filepath.IsAbs(arg) {
				refuse("%s[0]: %q is not an absolute path", argv.key, arg)
			}
		}
	}
	if !filepath.IsAbs(cfg.Dir) {
		refuse("dir: %q is not an absolute path", cfg.Dir)
	}
	seen := make(map[string]bool)
	for i, v := range cfg.Env {
		made, err := v.check()
		if err == nil && seen[v.Name] {
			err = errors.New("is set twice")
		}
		if err != nil {
			refuse("env[%d] (%s): %w", i, v.Name, err)
		}
		seen[v.Name] = true
		c.env = append(c.env, made)
	}
	if err := protocol.ValidatePointer(cfg.RemoteID); err != nil {
		refuse("remote_id: %w", err)
	}
	for _, d := range []struct {
		key   string
		value time.Duration
	}{{"timeout", cfg.Timeout}, {"grace", cfg.Grace}} {
		if d.value < time.Millisecond {
			refuse("%s: must be at least 1ms, not %s", d.key, d.value)
		}
	}
	if cfg.MaxAnswer < 1 || cfg.MaxAnswer > 64<<20 {
		refuse("max_answer: must be between 1 and %d bytes, not %d", 64<<20, cfg.MaxAnswer)
	}
	if cfg.Timeout+cfg.Grace > cfg.Capabilities.MaxRequest {
		refuse("capabilities.max_request: must be at least timeout and grace together (%s): the command itself may run that long", cfg.Timeout+cfg.Grace)
	}
	if err := c.caps.Validate(); err != nil {
		refuse("capabilities: %w", err)
	}
	return c, errors.Join(errs...)
}

func (v Variable) check() (variable, error) {
	made := variable{name: v.Name, value: v.Value}
	switch {
	case v.Name == "" || strings.ContainsAny(v.Name, "=\x00"):
		return made, fmt.Errorf("%q is no name of a variable", v.Name)
	case strings.ContainsRune(v.Value, 0):
		return made, errors.New("holds a NUL")
	case v.ValueEnv == "" && v.ValueFile == "":
		return made, nil // an empty value is a value
	case v.Value != "":
		return made, errors.New("needs exactly one of value, value_env and value_file")
	}
	var err error
	made.secret, err = secret.From(v.ValueEnv, v.ValueFile)
	return made, err
}

// environ is the whole environment of one command.
func (c *checked) environ(known *secret.Redactor) ([]string, error) {
	environ := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}
	for i, v := range c.env {
		value := v.value
		if v.secret != nil {
			var err error
			if value, err = v.secret(); err == nil && strings.ContainsRune(value, 0) {
				err = errors.New("holds a NUL")
			}
			if err != nil {
				return nil, fmt.Errorf("env[%d] (%s): %w", i, v.name, err)
			}
			known.Learn(value)
		}
		environ = append(environ, v.name+"="+value) // the last of a name counts
	}
	return environ, nil
}
