package inventory

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// parseYAML reads the form with all, children, hosts and vars. Anchors and merges are refused: they could make a small
// file a huge one.
func parseYAML(src []byte) (*tree, error) {
	file, err := parser.ParseBytes(src, 0)
	if err != nil {
		return nil, fmt.Errorf("%s", strings.Split(yaml.FormatError(err, false, false), "\n")[0])
	}
	t := newTree()
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		groups, err := mapping(doc.Body, "the inventory")
		if err != nil {
			return nil, err
		}
		if n, ok := groups["plugin"]; ok {
			if name, ok := scalar(n); ok && name != "" {
				return nil, fmt.Errorf("it is the configuration of the plugin %.60s: %w", name, ErrAnsible)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(groups)) {
			if err := t.yamlGroup(name, groups[name], 0); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

// mapping reads the keys of a mapping; none of an empty value.
func mapping(n ast.Node, what string) (map[string]ast.Node, error) {
	out := map[string]ast.Node{}
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return out, nil
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		return nil, fmt.Errorf("line %d: %s is a mapping, not %s", line(n), what, strings.ToLower(n.Type().String()))
	}
	for _, v := range values {
		key, ok := scalar(v.Key)
		if !ok {
			return nil, fmt.Errorf("line %d: %s has a key that is no text", line(v), what)
		}
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("line %d: %.60q is there twice", line(v), key)
		}
		out[key] = v.Value
	}
	return out, nil
}

func line(n ast.Node) int {
	if token := n.GetToken(); token != nil && token.Position != nil {
		return token.Position.Line
	}
	return 0
}

// scalar is the text of a value that is one.
func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.NullNode:
		return "", true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// variables reads those that are text or numbers; the connection has no others.
func variables(n ast.Node, what string) (map[string]string, error) {
	m, err := mapping(n, what)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for k, v := range m {
		if s, ok := scalar(v); ok {
			out[k] = s
		}
	}
	return out, nil
}

func (t *tree) yamlGroup(name string, n ast.Node, depth int) error {
	if checkName(name) != nil {
		return fmt.Errorf("%.60q is not the name of a group", name)
	}
	if depth > maxDepth {
		return fmt.Errorf("group %s is %d groups deep", name, depth)
	}
	g := t.group(name)
	parts, err := mapping(n, "group "+name)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(parts)) {
		switch key {
		case "vars":
			vars, err := variables(parts[key], "vars of "+name)
			if err != nil {
				return err
			}
			maps.Copy(g.vars, vars)
		case "hosts":
			hosts, err := mapping(parts[key], "hosts of "+name)
			if err != nil {
				return err
			}
			for _, pattern := range slices.Sorted(maps.Keys(hosts)) {
				if err := t.yamlHost(g, pattern, hosts[pattern]); err != nil {
					return err
				}
			}
		case "children":
			children, err := mapping(parts[key], "children of "+name)
			if err != nil {
				return err
			}
			for _, c := range slices.Sorted(maps.Keys(children)) {
				g.children = append(g.children, c)
				if err := t.yamlGroup(c, children[c], depth+1); err != nil {
					return err
				}
			}
		default:
			return fmt.Errorf("line %d: group %s has %.40q; a group has hosts, children and vars", line(parts[key]),
				name, key)
		}
	}
	return nil
}

func (t *tree) yamlHost(g *group, pattern string, n ast.Node) error {
	vars, err := variables(n, "host "+pattern)
	if err != nil {
		return err
	}
	names, err := expand(pattern)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := t.host(name, vars); err != nil {
			return err
		}
		g.hosts = append(g.hosts, name)
	}
	return nil
}
