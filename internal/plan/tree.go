package plan

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// What a plan file may cost to read. The parser is recursive and its time grows with the square of the depth, so depth
// and tokens are bounded before it sees the file.
const (
	MaxFile   = 1 << 20 // bytes
	maxTokens = 100_000
	maxDepth  = 24
	maxNodes  = 100_000 // after aliases are followed
)

type nodeKind int

const (
	null nodeKind = iota
	scalar
	list
	mapping
)

func (k nodeKind) String() string {
	return [...]string{"nothing", "a value", "a list", "a mapping"}[k]
}

// node is a YAML value reduced to what a plan needs: text with its place. Scalars keep their source text, so that 010,
// 1e3 and 0x10 reach the reader of the field as they were typed.
type node struct {
	kind  nodeKind
	text  string
	items []*node  // of a list
	keys  []*entry // of a mapping, in the order of the file
	at    pos
}

type entry struct {
	key   string
	at    pos
	value *node
}

// readTree reads one YAML document within the bounds above. Anything wrong is added to p, and then the result is nil.
func readTree(file string, src []byte, p *problems) *node {
	src = bytes.TrimPrefix(src, []byte("\ufeff")) // editors of Windows write one (YAML 1.2, 5.2)
	src = withoutDirectives(bytes.ReplaceAll(src, []byte("\r\n"), []byte("\n")))
	if at, msg := precheck(src); msg != "" {
		at.file = file
		p.add(at, "%s", msg)
		return nil
	}
	root, err := parse(src)
	if err != nil {
		at := pos{file, 1, 1}
		msg := err.Error()
		if se, ok := errors.AsType[*yaml.SyntaxError](err); ok {
			msg = se.Message
			if se.Token != nil && se.Token.Position != nil {
				at.line, at.col = se.Token.Position.Line, se.Token.Position.Column
			}
		}
		if msg = oneLine(msg); strings.Contains(msg, "non-map value") {
			msg = "this line is not KEY: VALUE, as the lines around it are; a colon, or the blank behind it, may be " +
				"missing"
		}
		p.add(at, "%s", msg)
		return nil
	}
	if root == nil {
		p.add(pos{file, 1, 1}, "the plan is empty; `tare init` writes one to start with")
		return nil
	}
	b := &builder{file: file, p: p, anchors: map[string]ast.Node{}}
	n := b.build(root, 0)
	if p.any() {
		return nil
	}
	return n
}

// withoutDirectives empties the lines of directives such as %YAML 1.2 before a document: nothing in a plan depends on
// them, and the parser takes one at most.
func withoutDirectives(src []byte) []byte {
	out := bytes.Clone(src)
	at := 0
	for line := range bytes.Lines(src) {
		switch {
		case bytes.HasPrefix(line, []byte("---")):
			return out
		case line[0] == '%':
			copy(out[at:], bytes.Repeat([]byte(" "), len(bytes.TrimRight(line, "\r\n"))))
		case line[0] != '#' && len(bytes.TrimSpace(line)) > 0:
			return src
		}
		at += len(line)
	}
	return src
}

// precheck refuses what the parser should not see.
func precheck(src []byte) (pos, string) {
	at := pos{line: 1, col: 1}
	if len(src) > MaxFile {
		return at, fmt.Sprintf("the plan has %d bytes; a plan has at most %d", len(src), MaxFile)
	}
	if bytes.HasPrefix(src, []byte("\xff\xfe")) || bytes.HasPrefix(src, []byte("\xfe\xff")) {
		return at, "this is UTF-16 text; save the plan as UTF-8"
	}
	for i, line := range bytes.Split(src, []byte("\n")) {
		at.line = i + 1
		if !utf8.Valid(line) {
			at.col = validPrefix(line) + 1
			return at, "this is not UTF-8 text; save the plan as UTF-8"
		}
		if j := bytes.IndexFunc(line, isControl); j >= 0 {
			at.col = utf8.RuneCount(line[:j]) + 1
			return at, fmt.Sprintf("control character %q in the plan; write it as an escape in double quotes", line[j])
		}
		if len(line) > 0 && line[0] == '\t' && len(bytes.TrimSpace(line)) > 0 {
			return at, "this line is indented with a tab; YAML needs spaces"
		}
	}
	return checkTokens(lexer.Tokenize(string(src)))
}

func isControl(r rune) bool { return r < ' ' && r != '\t' && r != '\r' || r == 0x7f }

func validPrefix(line []byte) int {
	n := 0
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		if r == utf8.RuneError && size == 1 {
			break
		}
		n, line = n+1, line[size:]
	}
	return n
}

// checkTokens bounds the number of tokens and the depth of nesting: of brackets, of entries begun on one line, and of
// indentation.
func checkTokens(tokens token.Tokens) (pos, string) {
	flow, onLine, line := 0, 0, 0
	var indents []int
	for i, t := range tokens {
		at := pos{line: t.Position.Line, col: t.Position.Column}
		if i >= maxTokens {
			return at, "the plan is too long"
		}
		if t.Position.Line != line {
			line, onLine = t.Position.Line, 0
			if flow == 0 && t.Type != token.CommentType {
				for len(indents) > 0 && indents[len(indents)-1] >= t.Position.Column {
					indents = indents[:len(indents)-1]
				}
				indents = append(indents, t.Position.Column)
			}
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow = max(0, flow-1)
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			onLine++
		}
		if flow > maxDepth || len(indents) > maxDepth || flow == 0 && onLine > maxDepth {
			return at, "the plan is nested too deeply"
		}
	}
	return pos{}, ""
}

// parse returns the body of the only document, or nil when there is none. The parser has panicked on malformed input
// before; that must not take the program down.
func parse(src []byte) (body ast.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			body, err = nil, fmt.Errorf("this is not YAML (%v)", r)
		}
	}()
	f, err := parser.ParseBytes(src, 0)
	if err != nil {
		return nil, err
	}
	for _, d := range f.Docs {
		switch {
		case d.Body == nil:
		case d.Body.Type() == ast.CommentType:
		case body != nil:
			t := d.Body.GetToken()
			return nil, &yaml.SyntaxError{Message: "a second document begins here; a plan is one document", Token: t}
		default:
			body = d.Body
		}
	}
	return body, nil
}

// builder turns the parser's tree into nodes and follows aliases within a bound.
type builder struct {
	file    string
	p       *problems
	anchors map[string]ast.Node
	nodes   int
}

func (b *builder) at(n ast.Node) pos {
	if n != nil {
		if t := n.GetToken(); t != nil && t.Position != nil {
			return pos{b.file, t.Position.Line, t.Position.Column}
		}
	}
	return pos{b.file, 1, 1}
}

func (b *builder) build(n ast.Node, depth int) *node {
	at := b.at(n)
	if b.nodes++; b.nodes > maxNodes || depth > maxDepth {
		b.p.add(at, "the plan is too large or nested too deeply once its aliases are followed")
		return &node{at: at}
	}
	switch v := n.(type) {
	case *ast.NullNode:
		if t := v.GetToken(); t != nil && t.Type == token.NullType {
			return &node{at: at, text: t.Value}
		}
		return &node{at: at}
	case nil:
		return &node{at: at}
	case *ast.AnchorNode:
		name := v.Name.GetToken().Value
		b.anchors[name] = v.Value
		return b.build(v.Value, depth+1)
	case *ast.AliasNode:
		return b.alias(v, at, depth)
	case *ast.TagNode:
		b.p.add(at, "tag %s: a plan has no tags; quote the value to make it text", v.GetToken().Value)
		return &node{at: at}
	case *ast.MappingNode:
		return b.mapping(v.Values, at, depth)
	case *ast.MappingValueNode:
		return b.mapping([]*ast.MappingValueNode{v}, at, depth)
	case *ast.SequenceNode:
		out := &node{kind: list, at: at}
		for _, item := range v.Values {
			if b.nodes > maxNodes {
				break
			}
			out.items = append(out.items, b.build(item, depth+1))
		}
		return out
	case *ast.LiteralNode:
		return &node{kind: scalar, text: v.Value.Value, at: at}
	case ast.ScalarNode:
		return &node{kind: scalar, text: v.GetToken().Value, at: at}
	}
	b.p.add(at, "%s is not allowed in a plan", n.Type())
	return &node{at: at}
}

// alias follows a reference. Its anchor is forgotten while it is followed, so that a reference to itself is unknown.
func (b *builder) alias(v *ast.AliasNode, at pos, depth int) *node {
	name := v.Value.GetToken().Value
	target, ok := b.anchors[name]
	if !ok {
		b.p.add(at, "alias *%s: no anchor &%s comes before it", name, name)
		return &node{at: at}
	}
	delete(b.anchors, name)
	out := b.build(target, depth+1)
	b.anchors[name] = target
	return out
}

func (b *builder) mapping(values []*ast.MappingValueNode, at pos, depth int) *node {
	out := &node{kind: mapping, at: at}
	seen := map[string]pos{}
	for i, kv := range values {
		if b.nodes > maxNodes {
			break
		}
		keyAt := b.at(kv.Key)
		if i == 0 && at.line == keyAt.line && keyAt.col < at.col {
			out.at = keyAt // the parser puts a block mapping at its first colon
		}
		if kv.Key.IsMergeKey() {
			b.p.add(keyAt, "<< is not supported; write `from: NAME` to derive an environment from another")
			continue
		}
		if _, ok := kv.Key.(ast.ScalarNode); !ok {
			b.p.add(keyAt, "a key must be a plain name")
			continue
		}
		key := kv.Key.GetToken().Value
		if first, twice := seen[key]; twice {
			b.p.add(keyAt, "%q is given twice; the first is in line %d", key, first.line)
			continue
		}
		seen[key] = keyAt
		out.keys = append(out.keys, &entry{key, keyAt, b.build(kv.Value, depth+1)})
	}
	return out
}

// oneLine reduces a foreign message to its first line.
func oneLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return strings.ToValidUTF8(s, "\uFFFD")
}
