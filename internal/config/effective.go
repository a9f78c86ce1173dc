package config

import (
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Setting is one key of the configuration as it is in force. Value is safe to
// print.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source Source `json:"source"`
	// Place is file:line or the environment variable, where there is one.
	Place string `json:"place,omitempty"`
	Env   string `json:"env"`
}

// Effective lists every setting in force, in the order of the file, with its
// source. Passwords are masked.
func (c *Config) Effective() []Setting {
	leaves := leavesOf(c)
	out := make([]Setting, len(leaves))
	for i, l := range leaves {
		out[i] = Setting{
			Key: l.key, Value: display(l.value), Source: c.sources[l.key],
			Place: c.places[l.key], Env: l.env(),
		}
	}
	return out
}

// EffectiveTools returns the tools section as YAML. Values that look like
// secrets are masked; see maskNode for what that means.
func (c *Config) EffectiveTools() (string, error) {
	if len(c.Tools) == 0 {
		return "", nil
	}
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, t := range c.Tools {
		var n yaml.Node
		if err := n.Encode(struct {
			Name   string
			Kind   string
			Slots  int
			Config *yaml.Node `yaml:",omitempty"`
			// Where its secrets are; never one itself.
			Callback *Callback `yaml:",omitempty"`
		}{t.Name, t.Kind, t.Slots, maskNode(t.Config), t.Callback}); err != nil {
			return "", fmt.Errorf("print tool %s: %w", t.Name, err)
		}
		list.Content = append(list.Content, &n)
	}
	b, err := yaml.Marshal(map[string]*yaml.Node{toolsKey: list})
	if err != nil {
		return "", fmt.Errorf("print tools: %w", err)
	}
	return string(b), nil
}

func display(v any) string {
	switch v := v.(type) {
	case Secret:
		return MaskDSN(v.Reveal())
	case time.Duration:
		return shortDuration(v)
	case []string:
		return "[" + strings.Join(v, ", ") + "]"
	}
	return fmt.Sprint(v)
}

// shortDuration prints 10m0s as 10m, the way people write it.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
