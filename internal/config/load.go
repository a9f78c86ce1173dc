package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"
)

// Source says which layer a value came from.
type Source string

// The layers, weakest first.
const (
	SourceDefault Source = "default"
	SourceFile    Source = "file"
	SourceEnv     Source = "env"
	SourceFlag    Source = "flag"
)

// Options says where to look. Nothing else is looked at: no home directory, no
// search path, no environment but Environ.
type Options struct {
	// File is the YAML file; empty means the one that LEASEHOLD_CONFIG names,
	// or none.
	File string
	// Environ is the environment, as os.Environ returns it.
	Environ []string
	// Set holds key=value pairs from flags.
	Set []string
	// Role, if not empty, is the process the configuration is for: its
	// connection string must be there.
	Role Role
	// AllowEnv lists LEASEHOLD_ variables that the caller reads by itself.
	AllowEnv []string
}

// Load reads, merges and validates the configuration. Its error is an *Error
// with every mistake, unless the file cannot be read at all.
func Load(o Options) (*Config, error) {
	defaults := Default()
	known := make(map[string]leaf)
	for _, l := range leavesOf(&defaults) {
		known[l.key] = l
	}
	vars := environment(o.Environ)
	name := o.File
	if name == "" {
		name = vars[configVariable]
	}

	var p problems
	f, err := readFile(name, known, &p)
	if err != nil {
		return nil, err
	}
	env := readEnv(vars, o, known, f.tools, &p)
	flags := readSet(o.Set, known, &p)
	cfg, err := merge(known, f.values, env, flags)
	if err != nil {
		return nil, err
	}
	cfg.Tools = f.tools
	cfg.trace(known, f, env, flags)
	validate(cfg, o.Role, &p)
	if err := p.err(); err != nil {
		return nil, err
	}
	return cfg, nil
}

// merge lays the layers over each other with viper and decodes the result.
// Every leaf is seeded with its default and the result starts empty, so that
// it holds nothing but what viper decided. The environment is a layer that was
// read before, not viper's own look at it, which knows no unknown names and
// ignores variables of keys that it has not heard of.
func merge(known map[string]leaf, file, env, flags map[string]any) (*Config, error) {
	v := viper.New()
	for key, l := range known {
		v.SetDefault(key, l.value)
	}
	for _, layer := range []map[string]any{file, env} {
		if err := v.MergeConfigMap(nest(layer)); err != nil {
			return nil, fmt.Errorf("merge configuration: %w", err)
		}
	}
	for key, value := range flags {
		v.Set(key, value)
	}
	var cfg Config
	err := v.UnmarshalExact(&cfg, func(d *mapstructure.DecoderConfig) {
		d.TagName = tagName
		d.WeaklyTypedInput = false
		d.DecodeHook = nil
	})
	if err != nil {
		return nil, fmt.Errorf("decode configuration: %w", err)
	}
	return &cfg, nil
}

// nest turns a.b.c: v into the nested maps that viper merges.
func nest(values map[string]any) map[string]any {
	root := map[string]any{}
	for key, value := range values {
		path := strings.Split(key, ".")
		m := root
		for _, name := range path[:len(path)-1] {
			child, ok := m[name].(map[string]any)
			if !ok {
				child = map[string]any{}
				m[name] = child
			}
			m = child
		}
		m[path[len(path)-1]] = value
	}
	return root
}

// readSet reads the key=value pairs of flags.
func readSet(pairs []string, known map[string]leaf, p *problems) map[string]any {
	values := map[string]any{}
	for _, pair := range pairs {
		key, text, ok := strings.Cut(pair, "=")
		l, isLeaf := known[key]
		switch {
		case !ok:
			p.add("", "flag", fmt.Sprintf("%q is not key=value", key))
		case key == toolsKey || strings.HasPrefix(key, toolsKey+"."):
			p.add(key, "flag", "tools are read from the file only")
		case !isLeaf:
			p.add(key, "flag", "unknown key"+didYouMean(key, keyNames(known)))
		default:
			v, err := l.parseText(text)
			if err != nil {
				p.add(key, "flag", err.Error())
				continue
			}
			values[key] = v
		}
	}
	return values
}

// trace remembers which layer won each leaf.
func (c *Config) trace(known map[string]leaf, f file, env, flags map[string]any) {
	c.sources = make(map[string]Source, len(known))
	c.places = make(map[string]string, len(known))
	for key, l := range known {
		switch {
		case has(flags, key):
			c.sources[key], c.places[key] = SourceFlag, "flag"
		case has(env, key):
			c.sources[key], c.places[key] = SourceEnv, l.env()
		case has(f.values, key):
			c.sources[key], c.places[key] = SourceFile, f.places[key]
		default:
			c.sources[key] = SourceDefault
		}
	}
}

func has(m map[string]any, key string) bool {
	_, ok := m[key]
	return ok
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// IsInvalid reports whether err is about the content of the configuration, as
// opposed to a file that could not be read.
func IsInvalid(err error) bool {
	var e *Error
	return errors.As(err, &e)
}
