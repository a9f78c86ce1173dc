package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// file is what one YAML file says: the values of its leaves, where each is, and
// its tools.
type file struct {
	name   string
	values map[string]any
	places map[string]string
	tools  []Tool
}

// readFile reads the file strictly. Only what makes the rest unreadable is
// returned as an error; everything else becomes a problem.
func readFile(name string, known map[string]leaf, p *problems) (file, error) {
	f := file{name: name, values: map[string]any{}, places: map[string]string{}}
	if name == "" {
		return f, nil
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return f, fmt.Errorf("read configuration: %w", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	var doc yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return f, nil
	} else if err != nil {
		return f, fmt.Errorf("read configuration %s: %w", name, err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		p.add("", name, "has more than one YAML document")
	}
	f.section(resolve(doc.Content[0]), "", known, p)
	return f, nil
}

// section reads one mapping below path.
func (f *file) section(n *yaml.Node, path string, known map[string]leaf, p *problems) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return // A section whose lines are all commented out.
	}
	if n.Kind != yaml.MappingNode {
		p.add(path, f.place(n), "must be a section with keys"+notThis(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], resolve(n.Content[i+1])
		key := join(path, name.Value)
		if first, dup := seen[key]; dup {
			p.add(key, f.place(name), fmt.Sprintf("is defined twice (first on line %d)", first))
			continue
		}
		seen[key] = name.Line
		f.places[key] = f.place(name)
		if section, rest, dotted := strings.Cut(name.Value, "."); dotted {
			p.add(key, f.place(name), fmt.Sprintf("must be nested: write %s: and %s: below it", section, rest))
			continue
		}
		f.entry(key, value, known, p)
	}
}

func (f *file) entry(key string, value *yaml.Node, known map[string]leaf, p *problems) {
	if key == toolsKey {
		f.tools = readTools(value, f.name, p)
		return
	}
	if l, ok := known[key]; ok {
		v, err := l.parseNode(value)
		if err != nil {
			p.add(key, f.places[key], err.Error())
			return
		}
		f.values[key] = v
		return
	}
	if isSection(key, known) {
		f.section(value, key, known, p)
		return
	}
	p.add(key, f.places[key], "unknown key"+didYouMean(key, keyNames(known)))
}

func isSection(key string, known map[string]leaf) bool {
	for k := range known {
		if strings.HasPrefix(k, key+".") {
			return true
		}
	}
	return false
}

// keyNames lists every key and section, sorted, so that of two equally near
// names the same one is always suggested.
func keyNames(known map[string]leaf) []string {
	names := map[string]bool{toolsKey: true}
	for key := range known {
		for path := key; path != ""; path = parent(path) {
			names[path] = true
		}
	}
	return sortedKeys(names)
}

func parent(key string) string {
	i := strings.LastIndexByte(key, '.')
	return key[:max(i, 0)]
}

func (f *file) place(n *yaml.Node) string { return fmt.Sprintf("%s:%d", f.name, n.Line) }

// resolve follows an alias to what it stands for.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}
