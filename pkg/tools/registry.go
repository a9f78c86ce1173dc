package tools

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
)

// Deps is what the platform hands to an adapter's constructor.
type Deps struct {
	Logger *slog.Logger
}

// Factory makes the adapters of one kind ("http", "jira", ...). A user's own
// main passes its factories beside the built-in ones; nothing registers itself.
type Factory struct {
	// Kind is the value of `kind:` in the tool's configuration.
	Kind string
	// Config returns a pointer to this kind's settings with their defaults; the
	// tool's `config:` section is decoded into it strictly.
	Config func() any
	// Describe checks cfg and says what the tool promises, without opening a
	// secret or a connection: the processes that only plan operations have no
	// credentials. nil if only New can tell.
	Describe func(cfg any) (Capabilities, error)
	// New makes the adapter of one configured tool and says what it promises.
	New func(name string, cfg any, deps Deps) (Adapter, Capabilities, error)
}

// Tool is one configured tool.
type Tool struct {
	Name         string
	Kind         string
	Adapter      Adapter
	Capabilities Capabilities
	// Slots is how many calls one process may have in flight for this tool;
	// above zero.
	Slots int
}

// Registry is the set of tools a process has. It is immutable once built and
// safe for concurrent use.
type Registry struct {
	tools map[string]Tool
	names []string
}

// NewRegistry returns the registry of the given tools. A duplicate name, or a
// declared capability without the method behind it, is an error that names the
// tool.
func NewRegistry(list ...Tool) (*Registry, error) {
	r := &Registry{tools: make(map[string]Tool, len(list))}
	for _, t := range list {
		if _, dup := r.tools[t.Name]; dup {
			return nil, fmt.Errorf("tool %q is defined twice", t.Name)
		}
		if err := t.validate(); err != nil {
			return nil, fmt.Errorf("tool %q: %w", t.Name, err)
		}
		r.tools[t.Name] = t
		r.names = append(r.names, t.Name)
	}
	slices.Sort(r.names)
	return r, nil
}

// Get returns the tool of that name.
func (r *Registry) Get(name string) (Tool, bool) {
	t, ok := r.tools[name]
	return t, ok
}

// Names returns the names of all tools, sorted.
func (r *Registry) Names() []string { return slices.Clone(r.names) }

// A name is a metric label, a column of the ledger and part of a plan file.
var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

func (t Tool) validate() error {
	var errs []error
	if !validName.MatchString(t.Name) {
		errs = append(errs, errors.New("name: must be 1 to 100 letters, digits, dots, dashes and underscores, the first a letter or digit"))
	}
	if t.Slots < 1 {
		errs = append(errs, fmt.Errorf("slots: must be above zero, not %d", t.Slots))
	}
	if t.Adapter == nil {
		errs = append(errs, errors.New("has no adapter"))
	}
	// A declaration without the method behind it would be found out at the one
	// moment when it is needed: with an effect in doubt.
	if _, ok := t.Adapter.(Querier); t.Capabilities.Query && t.Adapter != nil && !ok {
		errs = append(errs, fmt.Errorf("declares a query, but its adapter %T cannot ask", t.Adapter))
	}
	if err := t.Capabilities.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
