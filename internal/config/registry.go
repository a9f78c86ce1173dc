package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"go.yaml.in/yaml/v3"

	"github.com/leasehold/leasehold/pkg/tools"
)

// BuildRegistry makes the adapters of the configured tools. Each tool's config
// section is decoded strictly into what its kind's factory calls its settings.
// Its error is an *Error with the mistakes of all tools.
func BuildRegistry(c *Config, factories []tools.Factory, deps tools.Deps) (*tools.Registry, error) {
	byKind, err := kinds(factories)
	if err != nil {
		return nil, err
	}
	var p problems
	var list []tools.Tool
	for _, t := range c.Tools {
		made, err := build(c, t, byKind, deps)
		if err != nil {
			p.addTool(t, err)
			continue
		}
		list = append(list, made)
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	reg, err := tools.NewRegistry(list...)
	if err != nil {
		return nil, fmt.Errorf("build tools: %w", err)
	}
	return reg, nil
}

// Promises says what each configured tool promises, for a process that plans
// operations and has no credentials to send them: no secret is read and nothing
// is opened, where the kind can do without.
func Promises(c *Config, factories []tools.Factory, deps tools.Deps) (map[string]tools.Capabilities, error) {
	byKind, err := kinds(factories)
	if err != nil {
		return nil, err
	}
	var p problems
	out := make(map[string]tools.Capabilities, len(c.Tools))
	for _, t := range c.Tools {
		promise, err := describe(t, byKind, deps)
		promise.CallsBack = t.Callback != nil
		if err == nil {
			err = promise.Validate()
		}
		if err != nil {
			p.addTool(t, err)
			continue
		}
		out[t.Name] = promise
	}
	return out, p.err()
}

func describe(t Tool, byKind map[string]tools.Factory, deps tools.Deps) (tools.Capabilities, error) {
	f, settings, err := settingsOf(t, byKind)
	if err != nil {
		return tools.Capabilities{}, err
	}
	if f.Describe != nil {
		return f.Describe(settings)
	}
	_, promise, err := f.New(t.Name, settings, deps)
	return promise, err
}

func build(c *Config, t Tool, byKind map[string]tools.Factory, deps tools.Deps) (tools.Tool, error) {
	f, settings, err := settingsOf(t, byKind)
	if err != nil {
		return tools.Tool{}, err
	}
	adapter, promise, err := f.New(t.Name, settings, deps)
	if err != nil {
		return tools.Tool{}, err
	}
	promise.CallsBack = t.Callback != nil
	return tools.Tool{
		Name: t.Name, Kind: t.Kind, Slots: t.Slots, Adapter: adapter, Capabilities: promise,
	}, c.checkTimeout(adapter)
}

func settingsOf(t Tool, byKind map[string]tools.Factory) (tools.Factory, any, error) {
	f, ok := byKind[t.Kind]
	if !ok {
		kinds := sortedKeys(byKind)
		return f, nil, fmt.Errorf("kind %q is not linked into this program, which has %s%s",
			t.Kind, strings.Join(kinds, ", "), didYouMean(t.Kind, kinds))
	}
	settings := f.Config()
	return f, settings, decodeSettings(t.Config, settings)
}

func kinds(factories []tools.Factory) (map[string]tools.Factory, error) {
	byKind := make(map[string]tools.Factory, len(factories))
	for _, f := range factories {
		if _, dup := byKind[f.Kind]; dup {
			return nil, fmt.Errorf("two adapters of kind %q are linked into this program", f.Kind)
		}
		byKind[f.Kind] = f
	}
	return byKind, nil
}

func (p *problems) addTool(t Tool, err error) {
	for _, e := range unjoin(err) {
		p.add("tools."+t.Name, t.place, e.Error())
	}
}

// checkTimeout refuses a request that may outlive its claim: its answer would
// come when nobody may store it any more, and every slow call would end in
// doubt.
func (c *Config) checkTimeout(a tools.Adapter) error {
	limited, ok := a.(interface{ RequestTimeout() time.Duration })
	if !ok {
		return nil
	}
	timeout, margin := limited.RequestTimeout(), c.Dispatcher.SendMargin
	var errs []error
	for _, claim := range []struct {
		key string
		ttl time.Duration
	}{{"dispatcher.claim_ttl", c.Dispatcher.ClaimTTL}, {"reconciler.claim_ttl", c.Reconciler.ClaimTTL}} {
		if timeout+margin >= claim.ttl {
			errs = append(errs, fmt.Errorf(
				"request timeout (%s) + dispatcher.send_margin (%s) must be less than %s (%s)",
				display(timeout), display(margin), claim.key, display(claim.ttl)))
		}
	}
	if drain := c.Dispatcher.DrainTimeout; timeout > drain {
		errs = append(errs, fmt.Errorf(
			"request timeout (%s) must be at most dispatcher.drain_timeout (%s): otherwise each restart leaves doubts",
			display(timeout), display(drain)))
	}
	return errors.Join(errs...)
}

// decodeSettings decodes an adapter's section into settings, a pointer to a
// struct with the defaults. Fields are named by their yaml tags (or, without
// one, by their names in lower case); unknown keys are refused, durations need
// a unit, and the case of keys inside maps is kept.
func decodeSettings(n *yaml.Node, settings any) error { return decodeNamed(n, "config", settings) }

// decodeSection decodes a section of the platform's own as strictly.
func decodeSection(n *yaml.Node, settings any) error { return decodeNamed(n, "callback", settings) }

func decodeNamed(n *yaml.Node, name string, settings any) error {
	raw := map[string]any{}
	if n != nil {
		// yaml refuses duplicate keys here.
		if err := n.Decode(&raw); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	d, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		TagName:         tagName,
		SquashTagOption: "inline",
		ErrorUnused:     true,
		// A list replaces the default list: without this it would only
		// overwrite its first entries.
		ZeroFields: true,
		Result:     settings,
		RootName:   name,
		DecodeHook: mapstructure.ComposeDecodeHookFunc(
			durationHook, wholeNumberHook, mapstructure.TextUnmarshallerHookFunc(),
		),
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return d.Decode(raw)
}

func durationHook(_, to reflect.Type, v any) (any, error) {
	if to != reflect.TypeFor[time.Duration]() {
		return v, nil
	}
	switch v := v.(type) {
	case string:
		return parseDuration(v)
	case time.Duration:
		return v, nil
	}
	return nil, fmt.Errorf("%w: not %v", errNoUnit, v)
}

// wholeNumberHook refuses 2.5 for an integer, which the decoder would cut to 2.
func wholeNumberHook(_, to reflect.Type, v any) (any, error) {
	if f, isFloat := v.(float64); isFloat {
		if zero := reflect.Zero(to); zero.CanInt() || zero.CanUint() {
			return nil, fmt.Errorf("must be a whole number, not %v", f)
		}
	}
	return v, nil
}

// unjoin flattens joined errors, so that each becomes a problem of its own.
func unjoin(err error) []error {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, unjoin(e)...)
	}
	return out
}
