package config

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

var secretName = regexp.MustCompile(
	`(?i)(passw|secret|token|credential|authorization|cookie|(api|access|private|signing)[_-]?key)`)

// secretKey reports whether a value under this name is likely a secret. A file
// or a variable that holds one is not one.
func secretKey(name string) bool {
	return secretName.MatchString(name) && !strings.HasSuffix(name, "_file") && !strings.HasSuffix(name, "_env")
}

// maskNode returns a copy of an adapter's section that is safe to print. The
// platform does not know the adapter's fields, so it goes by names: a value
// under a name like password or api_key, a {name: Authorization, value: …}
// pair, and passwords inside URLs. What an adapter's author calls "phrase" is
// printed: secrets belong into *_file or *_env.
func maskNode(n *yaml.Node) *yaml.Node {
	if n == nil {
		return nil
	}
	n = resolve(n)
	c := *n
	c.Anchor, c.HeadComment, c.LineComment, c.FootComment = "", "", "", ""
	c.Content = make([]*yaml.Node, len(n.Content))
	switch n.Kind {
	case yaml.MappingNode:
		pairIsSecret := secretKey(scalarUnder(n, "name"))
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			c.Content[i] = key
			if secretKey(key.Value) || pairIsSecret && key.Value == "value" {
				value = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: masked, Style: yaml.DoubleQuotedStyle}
			}
			c.Content[i+1] = maskNode(value)
		}
	case yaml.ScalarNode:
		if strings.Contains(n.Value, "://") && strings.Contains(n.Value, "@") {
			c.Value = maskURL(n.Value)
		}
	case yaml.SequenceNode, yaml.DocumentNode, yaml.AliasNode:
		for i, child := range n.Content {
			c.Content[i] = maskNode(child)
		}
	}
	return &c
}

func scalarUnder(n *yaml.Node, key string) string {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key && n.Content[i+1].Kind == yaml.ScalarNode {
			return n.Content[i+1].Value
		}
	}
	return ""
}
