package config

import (
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Tool is one entry of the tools list: a remote effect that runs may ask for by
// this name.
type Tool struct {
	// The name that steps use and that metrics show; unique.
	Name string
	// The kind of adapter, such as `http`.
	Kind string
	// How many calls one process may have in flight for it (20 if left out).
	Slots int
	// What this kind of adapter needs to know, in its own words.
	Config *yaml.Node
	// How it calls back, if it answers later: the `secrets` that it signs with,
	// each an `env` or a `file` (several during a rotation), and the `window`
	// around now in which a message must have been signed (5m if left out). See
	// tools.md.
	Callback *Callback

	place string
}

const defaultToolSlots = 20

// The registry of tools has the same rule; here the name gets its line.
var toolName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

func readTools(n *yaml.Node, file string, p *problems) []Tool {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		p.add(toolsKey, fmt.Sprintf("%s:%d", file, n.Line),
			"must be a list whose entries have name, kind, slots and config"+notThis(n))
		return nil
	}
	var list []Tool
	first := map[string]string{}
	for i, item := range n.Content {
		item = resolve(item)
		path := fmt.Sprintf("tools[%d]", i)
		place := fmt.Sprintf("%s:%d", file, item.Line)
		t, ok := readTool(item, path, file, p)
		if !ok {
			continue
		}
		if before, dup := first[t.Name]; dup {
			p.add(path+".name", place, fmt.Sprintf("%q is defined twice (first at %s)", t.Name, before))
			continue
		}
		first[t.Name] = place
		list = append(list, t)
	}
	return list
}

func readTool(n *yaml.Node, path, file string, p *problems) (Tool, bool) {
	t := Tool{Slots: defaultToolSlots, place: fmt.Sprintf("%s:%d", file, n.Line)}
	if n.Kind != yaml.MappingNode {
		p.add(path, t.place, "must be a section with name, kind, slots and config"+notThis(n))
		return t, false
	}
	before := len(p.list)
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i].Value, resolve(n.Content[i+1])
		key, place := path+"."+name, fmt.Sprintf("%s:%d", file, n.Content[i].Line)
		if seen[name] {
			p.add(key, place, "is defined twice")
			continue
		}
		seen[name] = true
		var v any
		var err error
		switch name {
		case "name":
			v, err = leaf{value: ""}.parseNode(value)
			t.Name, _ = v.(string)
		case "kind":
			v, err = leaf{value: ""}.parseNode(value)
			t.Kind, _ = v.(string)
		case "slots":
			v, err = leaf{value: 0}.parseNode(value)
			t.Slots, _ = v.(int)
		case "config":
			t.Config = value
		case "callback":
			t.Callback, err = readCallback(value)
		default:
			err = fmt.Errorf("unknown key%s", didYouMean(name, []string{"name", "kind", "slots", "config", "callback"}))
		}
		if err != nil {
			for _, e := range unjoin(err) {
				p.add(key, place, e.Error())
			}
		}
	}
	if len(p.list) > before {
		return t, false
	}
	if !toolName.MatchString(t.Name) {
		p.add(path+".name", t.place, fmt.Sprintf(
			"must be 1 to 100 letters, digits, dots, dashes and underscores, not %q", t.Name))
	}
	if t.Kind == "" {
		p.add(path+".kind", t.place, "is missing: which adapter is it?")
	}
	if t.Slots < 1 || t.Slots > 10_000 {
		p.add(path+".slots", t.place, fmt.Sprintf("must be between 1 and 10000, not %d", t.Slots))
	}
	return t, len(p.list) == before
}

// envNamedBy lists the variables that tools take their secrets from: fields
// that end in _env hold a name of a variable, so it is a known one.
func envNamedBy(list []Tool) []string {
	var names []string
	for _, t := range list {
		if t.Config != nil {
			collectEnv(t.Config, &names)
		}
		if t.Callback != nil {
			names = append(names, t.Callback.environment()...)
		}
	}
	return names
}

func collectEnv(n *yaml.Node, names *[]string) {
	// Aliases are not followed: what they point to is in the document too.
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			if value.Kind == yaml.ScalarNode && (key.Value == "env" || strings.HasSuffix(key.Value, "_env")) {
				*names = append(*names, value.Value)
			}
		}
	}
	for _, child := range n.Content {
		collectEnv(child, names)
	}
}
