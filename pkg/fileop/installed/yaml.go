package installed

import (
	"errors"

	"go.yaml.in/yaml/v3"
)

var (
	errLongYAML  = errors.New("the YAML is too long")
	errDeepYAML  = errors.New("the YAML has too many values within each other")
	errAliasYAML = errors.New("the YAML has aliases, with which a text becomes larger than it is")
)

// node is a YAML value; nil is a missing one.
type node yaml.Node

// parseYAML parses one document of at most maxYAML bytes. For an empty document it returns nil.
// It refuses aliases.
func parseYAML(text string) (*node, error) {
	if len(text) > maxYAML {
		return nil, errLongYAML
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return nil, err
	}
	if len(document.Content) == 0 {
		return nil, nil
	}
	root := document.Content[0]
	return (*node)(root), checkYAML(root, maxYAMLDepth)
}

// checkYAML refuses aliases, and values that are nested deeper than depth.
func checkYAML(n *yaml.Node, depth int) error {
	if n.Kind == yaml.AliasNode {
		return errAliasYAML
	}
	if depth == 0 {
		return errDeepYAML
	}
	for _, inner := range n.Content {
		if err := checkYAML(inner, depth-1); err != nil {
			return err
		}
	}
	return nil
}

// is reports whether a value is of a kind.
func (n *node) is(kind yaml.Kind) bool { return n != nil && n.Kind == kind }

// get returns a member of a mapping, or nil. If several members have the name, it returns the
// last one.
func (n *node) get(key string) *node {
	if !n.is(yaml.MappingNode) {
		return nil
	}
	for i := len(n.Content) - 2; i >= 0; i -= 2 {
		if n.Content[i].Value == key {
			return (*node)(n.Content[i+1])
		}
	}
	return nil
}

// items returns the elements of a sequence, or nil.
func (n *node) items() []*node {
	if !n.is(yaml.SequenceNode) {
		return nil
	}
	list := make([]*node, len(n.Content))
	for i, item := range n.Content {
		list[i] = (*node)(item)
	}
	return list
}

// scalar returns the text of a scalar; ok is false for null and for other kinds.
func (n *node) scalar() (text string, ok bool) {
	if !n.is(yaml.ScalarNode) || n.Tag == "!!null" {
		return "", false
	}
	return n.Value, true
}

// boolean returns the value of a scalar that is true or false; ok is false for any other node.
func (n *node) boolean() (value, ok bool) {
	if !n.is(yaml.ScalarNode) || n.Tag != "!!bool" {
		return false, false
	}
	err := (*yaml.Node)(n).Decode(&value)
	return value, err == nil
}
