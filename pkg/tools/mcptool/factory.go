package mcptool

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/pkg/tools"
)

// Kind is the value of kind: for a tool of this package.
const Kind = "mcp"

// Factory makes adapters of kind mcp. Those that it makes share sessions.
func Factory() tools.Factory {
	servers := &pool{servers: make(map[string]*shared)}
	return tools.Factory{
		Kind:     Kind,
		Config:   func() any { return defaults() },
		Describe: func(cfg any) (tools.Capabilities, error) { return check(cfg.(*Config)) },
		New: func(name string, cfg any, deps tools.Deps) (tools.Adapter, tools.Capabilities, error) {
			return newAdapter(servers, name, *cfg.(*Config), deps)
		},
	}
}

func newAdapter(servers *pool, name string, cfg Config, deps tools.Deps) (tools.Adapter, tools.Capabilities, error) {
	cfg.Tool = cmp.Or(cfg.Tool, name)
	caps, err := check(&cfg)
	if err != nil {
		return nil, tools.Capabilities{}, err
	}
	var errs []error
	for at, list := range map[string][]Param{"env": cfg.Server.Env, "headers": cfg.Server.Headers} {
		for i, p := range list {
			// Now, to find mistakes at start-up.
			if _, err := p.read(&redactor{}); err != nil {
				errs = append(errs, fmt.Errorf("server.%s[%d]: %w", at, i, err))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, tools.Capabilities{}, err
	}
	a := &adapter{cfg: cfg, caps: caps, server: servers.take(cfg.Server, deps.Logger)}
	if cfg.Query == nil {
		return a, caps, nil
	}
	return asker{a}, caps, nil
}
