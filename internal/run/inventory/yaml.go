package inventory

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// What following aliases may cost: they could make a small file a huge one.
const (
	maxYAMLNodes = 1_000_000
	maxMerges    = 16 // of mappings merged into mappings
)

// yamlFile is a parsed file whose anchors are known.
type yamlFile struct {
	bodies  []ast.Node // of its documents
	anchors map[string]ast.Node
	nodes   int // visited so far
}

func newYAML(src []byte) (*yamlFile, error) {
	file, err := parser.ParseBytes(bytes.TrimPrefix(src, []byte("\ufeff")), 0)
	if err != nil {
		return nil, fmt.Errorf("%s", strings.Split(yaml.FormatError(err, false, false), "\n")[0])
	}
	f := &yamlFile{anchors: map[string]ast.Node{}}
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.DirectiveType && doc.Body.Type() != ast.CommentType {
			f.bodies = append(f.bodies, doc.Body)
			ast.Walk(f, doc.Body)
		}
	}
	return f, nil
}

// Visit keeps the anchors, for ast.Walk.
func (f *yamlFile) Visit(n ast.Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok {
		f.anchors[a.Name.GetToken().Value] = a.Value
	}
	return f
}

// value is the value of a node: that of its anchor, alias or tag. A chain of aliases ends at one that is not known.
func (f *yamlFile) value(n ast.Node) (ast.Node, error) {
	for range maxMerges {
		switch v := n.(type) {
		case *ast.AnchorNode:
			n = v.Value
		case *ast.AliasNode:
			name := v.Value.GetToken().Value
			target, ok := f.anchors[name]
			if !ok {
				return nil, fmt.Errorf("line %d: alias *%.60s: there is no anchor &%.60[2]s", line(v), name)
			}
			n = target
		default:
			if f.nodes++; f.nodes > maxYAMLNodes {
				return nil, fmt.Errorf("line %d: the file is too large once its aliases are followed", line(n))
			}
			return n, nil
		}
	}
	return nil, fmt.Errorf("line %d: its aliases refer to each other", line(n))
}

// parseYAML reads the form with all, children, hosts and vars.
func parseYAML(src []byte) (*tree, error) {
	f, err := newYAML(src)
	if err != nil {
		return nil, err
	}
	t := newTree()
	for _, body := range f.bodies {
		groups, err := f.mapping(body, "the inventory")
		if err != nil {
			return nil, err
		}
		if n, ok := groups["plugin"]; ok {
			if name, ok := f.scalar(n); ok && name != "" {
				return nil, fmt.Errorf("it is the configuration of the plugin %.60s: %w", name, ErrAnsible)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(groups)) {
			if err := t.yamlGroup(f, name, groups[name], 0); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

// mapping reads the keys of a mapping, those that it merges (<<) included; none of an empty value.
func (f *yamlFile) mapping(n ast.Node, what string) (map[string]ast.Node, error) {
	return f.merged(n, what, 0)
}

func (f *yamlFile) merged(n ast.Node, what string, depth int) (map[string]ast.Node, error) {
	out := map[string]ast.Node{}
	if n == nil {
		return out, nil
	}
	at := line(n)
	n, err := f.value(n)
	if err != nil {
		return nil, err
	}
	if depth > maxMerges {
		return nil, fmt.Errorf("line %d: %s merges more than %d mappings into each other", at, what, maxMerges)
	}
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return out, nil
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		return nil, fmt.Errorf("line %d: %s must be a mapping, and is %s", at, what, strings.ToLower(n.Type().String()))
	}
	var sources []ast.Node // of merges, the first of which counts most
	for _, v := range values {
		if v.Key.IsMergeKey() {
			source, err := f.value(v.Value)
			if err != nil {
				return nil, err
			}
			if list, ok := source.(*ast.SequenceNode); ok {
				sources = append(sources, list.Values...)
			} else {
				sources = append(sources, source)
			}
			continue
		}
		key, ok := f.scalar(v.Key)
		if !ok {
			return nil, fmt.Errorf("line %d: %s has a key that is no text", line(v), what)
		}
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("line %d: %.60q is there twice", line(v), key)
		}
		out[key] = v.Value
	}
	for _, source := range sources {
		more, err := f.merged(source, what, depth+1)
		if err != nil {
			return nil, err
		}
		for key, value := range more {
			if _, own := out[key]; !own {
				out[key] = value
			}
		}
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
func (f *yamlFile) scalar(n ast.Node) (string, bool) {
	n, err := f.value(n)
	if err != nil {
		return "", false
	}
	switch n := n.(type) {
	case *ast.TagNode:
		if tag := n.GetToken().Value; tag == "!vault" || tag == "!vault-encrypted" {
			return "", false
		}
		return f.scalar(n.Value) // !unsafe, !!str
	case *ast.MappingKeyNode:
		return f.scalar(n.Value)
	case *ast.LiteralNode:
		return n.Value.Value, true
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
func (f *yamlFile) variables(n ast.Node, what string) (map[string]string, error) {
	m, err := f.mapping(n, what)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for k, v := range m {
		if s, ok := f.scalar(v); ok {
			out[k] = s
		} else if n, _ := f.value(v); slices.Contains(ours, k) && n != nil {
			return nil, fmt.Errorf("line %d: %s is in a vault or no text; write the value", line(n), k)
		}
	}
	return out, nil
}

func (t *tree) yamlGroup(f *yamlFile, name string, n ast.Node, depth int) error {
	if checkName(name) != nil {
		return fmt.Errorf("%.60q is not the name of a group", name)
	}
	if depth > maxDepth {
		return fmt.Errorf("group %s is %d groups deep", name, depth)
	}
	g := t.group(name)
	parts, err := f.mapping(n, "group "+name)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(parts)) {
		switch key {
		case "vars":
			vars, err := f.variables(parts[key], "vars of "+name)
			if err != nil {
				return err
			}
			maps.Copy(g.vars, vars)
		case "hosts":
			hosts, err := f.mapping(parts[key], "hosts of "+name)
			if err != nil {
				return err
			}
			for _, pattern := range slices.Sorted(maps.Keys(hosts)) {
				if err := t.yamlHost(f, g, pattern, hosts[pattern]); err != nil {
					return err
				}
			}
		case "children":
			children, err := f.mapping(parts[key], "children of "+name)
			if err != nil {
				return err
			}
			for _, c := range slices.Sorted(maps.Keys(children)) {
				g.children = append(g.children, c)
				if err := t.yamlGroup(f, c, children[c], depth+1); err != nil {
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

func (t *tree) yamlHost(f *yamlFile, g *group, pattern string, n ast.Node) error {
	vars, err := f.variables(n, "host "+pattern)
	if err != nil {
		return err
	}
	pattern, port := address(pattern)
	if _, said := vars["ansible_port"]; port != "" && !said {
		vars["ansible_port"] = port
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
