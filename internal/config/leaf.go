package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// EnvPrefix begins the name of every environment variable of the product.
const EnvPrefix = "LEASEHOLD_"

const (
	tagName  = "yaml"
	toolsKey = "tools"
)

// leaf is one key with one value: one line of the file, one environment
// variable, one -set flag.
type leaf struct {
	key   string
	value any // the default, which also tells the type
}

func (l leaf) env() string { return envName(l.key) }

func envName(key string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// leavesOf lists the leaves of c in the order of the struct, with c's values.
func leavesOf(c *Config) []leaf {
	var out []leaf
	walkLeaves(reflect.ValueOf(c).Elem(), "", &out)
	return out
}

func walkLeaves(v reflect.Value, path string, out *[]leaf) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || f.Tag.Get(tagName) == toolsKey {
			continue
		}
		key := join(path, f.Tag.Get(tagName))
		if f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[Secret]() {
			walkLeaves(v.Field(i), key, out)
			continue
		}
		*out = append(*out, leaf{key: key, value: v.Field(i).Interface()})
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

var (
	errNoUnit = errors.New(`a duration needs a unit, such as 500ms, 30s or 5m`)
	errNull   = errors.New("has no value: give one, or remove the line")
)

// parseText reads a value as an environment variable or a flag carries it.
func (l leaf) parseText(s string) (any, error) {
	switch l.value.(type) {
	case time.Duration:
		return parseDuration(s)
	case int:
		n, err := strconv.Atoi(s)
		if err != nil {
			return nil, fmt.Errorf("must be a whole number, not %q", s)
		}
		return n, nil
	case bool:
		switch s {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
		return nil, fmt.Errorf("must be true or false, not %q", s)
	case []string:
		return splitList(s), nil
	case Secret:
		return NewSecret(s), nil
	}
	return s, nil
}

// parseNode reads a value of the file. It converts nothing: a text that looks
// like a number is a text only in quotes.
func (l leaf) parseNode(n *yaml.Node) (any, error) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return nil, errNull
	}
	switch l.value.(type) {
	case time.Duration:
		if n.Kind != yaml.ScalarNode {
			return nil, errNoUnit
		}
		return parseDuration(n.Value)
	case int:
		var i int
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || n.Decode(&i) != nil {
			return nil, errors.New("must be a whole number" + notThis(n))
		}
		return i, nil
	case bool:
		var b bool
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" || n.Decode(&b) != nil {
			return nil, errors.New("must be true or false" + notThis(n))
		}
		return b, nil
	case []string:
		return parseListNode(n)
	case Secret:
		if !isText(n) {
			return nil, errors.New("must be text; put it in quotes")
		}
		return NewSecret(n.Value), nil
	}
	if !isText(n) {
		return nil, errors.New("must be text" + notThis(n) + "; put it in quotes")
	}
	return n.Value, nil
}

func parseListNode(n *yaml.Node) (any, error) {
	if n.Kind != yaml.SequenceNode {
		return nil, errors.New("must be a list, such as [a, b]" + notThis(n))
	}
	list := make([]string, 0, len(n.Content))
	for _, item := range n.Content {
		if item = resolve(item); !isText(item) {
			return nil, errors.New("must be a list of texts" + notThis(item) + "; put it in quotes")
		}
		list = append(list, item.Value)
	}
	return list, nil
}

func parseDuration(s string) (time.Duration, error) {
	// Bare numbers are refused, 0 included, whatever their unit might have been.
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return 0, fmt.Errorf("%w: not %q", errNoUnit, s)
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%w: not %q", errNoUnit, s)
	}
	return d, nil
}

func splitList(s string) []string {
	list := []string{}
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

func isText(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str"
}

func notThis(n *yaml.Node) string {
	switch n.Kind {
	case yaml.ScalarNode:
		return fmt.Sprintf(", not %q", n.Value)
	case yaml.SequenceNode:
		return ", not a list"
	case yaml.MappingNode:
		return ", not a section"
	case yaml.DocumentNode, yaml.AliasNode:
	}
	return ""
}
