package failif

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"tare/internal/suggest"
)

// Bounds of a condition, whoever wrote it.
const (
	maxExpr  = 4096
	maxDepth = 40
)

// Condition is a parsed expression.
type Condition struct {
	Expr string // as it was written
	top  node
}

type nodeKind int

const (
	kindAnd nodeKind = iota
	kindOr
	kindNot
	kindTest
)

type node struct {
	kind nodeKind
	kids []node // of and, or, not
	test test
}

// test compares one figure with a limit.
type test struct {
	figure                   string // "ratio", "value", "change"; "" for change where there is one, else ratio
	target, workload, metric string
	op                       string
	limit                    float64
	unit                     string // of the limit, as written; "" for none
	text                     string // as written
}

// Parse reads a condition. The error says where and what was expected.
func Parse(expr string) (*Condition, error) {
	if len(expr) > maxExpr {
		return nil, fmt.Errorf("condition of %d bytes is longer than %d", len(expr), maxExpr)
	}
	if !utf8.ValidString(expr) {
		return nil, fmt.Errorf("condition %q is not UTF-8", expr)
	}
	p := &parser{src: expr}
	top, err := p.or(0)
	if err == nil && !p.end() {
		err = p.errorf("expected and, or, or the end")
	}
	if err != nil {
		return nil, located(expr, err)
	}
	return &Condition{Expr: strings.TrimSpace(expr), top: top}, nil
}

type parser struct {
	src string
	at  int
}

// mistake is an error at a byte of the source.
type mistake struct {
	at   int
	text string
}

func (m mistake) Error() string { return m.text }

// longestShown is the longest condition, in characters, that an error shows with a mark below the mistake.
const longestShown = 120

// located adds the condition, with a mark below the mistake where it fits on a line.
func located(expr string, err error) error {
	m, ok := errors.AsType[mistake](err)
	if !ok || utf8.RuneCountInString(expr) > longestShown {
		return fmt.Errorf("condition %q: %w", expr, err)
	}
	shown := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) { // a tab or an escape would move the mark, or do worse
			return ' '
		}
		return r
	}, expr)
	return fmt.Errorf("%w\n    %s\n    %s^", err, shown, strings.Repeat(" ", utf8.RuneCountInString(expr[:m.at])))
}

func (p *parser) errorf(format string, args ...any) error {
	rest := p.src[p.at:]
	if len(rest) > 20 {
		rest = strings.ToValidUTF8(rest[:20], "") + "..."
	}
	if rest == "" {
		rest = "the end"
	} else {
		rest = strconv.Quote(rest)
	}
	return mistake{p.at, fmt.Sprintf(format, args...) + " at " + rest}
}

// wrongAt is an error about what has been read already.
func wrongAt(at int, format string, args ...any) error {
	return mistake{at, fmt.Sprintf(format, args...)}
}

func (p *parser) space() {
	for p.at < len(p.src) && strings.IndexByte(" \t\r\n", p.src[p.at]) >= 0 {
		p.at++
	}
}

func (p *parser) end() bool {
	p.space()
	return p.at == len(p.src)
}

// sign takes a sign if it comes next.
func (p *parser) sign(s string) bool {
	p.space()
	if !strings.HasPrefix(p.src[p.at:], s) {
		return false
	}
	p.at += len(s)
	return true
}

// word looks at the word that comes next: letters only.
func (p *parser) word() string {
	p.space()
	rest := p.src[p.at:]
	if end := strings.IndexFunc(rest, func(r rune) bool { return !unicode.IsLetter(r) }); end >= 0 {
		rest = rest[:end]
	}
	return rest
}

func (p *parser) keyword(k string) bool {
	if p.word() != k {
		return false
	}
	p.at += len(k)
	return true
}

func (p *parser) or(depth int) (node, error) { return p.chain(depth, kindOr, "or", "||", p.and) }

func (p *parser) and(depth int) (node, error) { return p.chain(depth, kindAnd, "and", "&&", p.not) }

func (p *parser) chain(depth int, kind nodeKind, word, sign string, next func(int) (node, error)) (node, error) {
	first, err := next(depth)
	if err != nil {
		return node{}, err
	}
	kids := []node{first}
	for p.keyword(word) || p.sign(sign) {
		kid, err := next(depth)
		if err != nil {
			return node{}, err
		}
		kids = append(kids, kid)
	}
	if len(kids) == 1 {
		return first, nil
	}
	return node{kind: kind, kids: kids}, nil
}

func (p *parser) not(depth int) (node, error) {
	if depth > maxDepth {
		return node{}, p.errorf("conditions are nested more than %d deep", maxDepth)
	}
	if p.keyword("not") || p.sign("!") {
		kid, err := p.not(depth + 1)
		return node{kind: kindNot, kids: []node{kid}}, err
	}
	if !p.sign("(") {
		return p.test()
	}
	n, err := p.or(depth + 1)
	if err == nil && !p.sign(")") {
		err = p.errorf("expected )")
	}
	return n, err
}

var functions = []string{"ratio", "value", "change", "slower", "faster"}

func (p *parser) test() (node, error) {
	name := p.word()
	start := p.at
	known := false
	for _, f := range functions {
		known = known || f == name
	}
	if !known {
		return node{}, p.errorf("expected %s%s", strings.Join(functions, ", "), suggest.DidYouMean(name, functions))
	}
	p.at += len(name)
	args, err := p.args()
	if err != nil {
		return node{}, err
	}
	var t test
	if name == "slower" || name == "faster" {
		t, err = predicate(start, name, args)
	} else {
		t, err = p.comparison(start, name, args)
	}
	t.text = strings.TrimSpace(p.src[start:p.at])
	return node{kind: kindTest, test: t}, err
}

func (p *parser) args() ([]string, error) {
	if !p.sign("(") {
		return nil, p.errorf("expected (")
	}
	var args []string
	for {
		a, err := p.arg()
		if err != nil {
			return nil, err
		}
		args = append(args, a)
		switch {
		case p.sign(")"):
			return args, nil
		case !p.sign(","):
			return nil, p.errorf("expected , or )")
		}
	}
}

// arg is a name in quotes, or everything up to the next comma or parenthesis.
func (p *parser) arg() (string, error) {
	p.space()
	if p.at < len(p.src) && (p.src[p.at] == '"' || p.src[p.at] == '\'') {
		quote := p.src[p.at]
		end := strings.IndexByte(p.src[p.at+1:], quote)
		if end < 0 {
			return "", p.errorf("the quoted name is not closed")
		}
		a := p.src[p.at+1 : p.at+1+end]
		p.at += end + 2
		return a, nil
	}
	end := strings.IndexAny(p.src[p.at:], ",()")
	if end < 0 {
		return "", p.errorf("expected , or ) after a name")
	}
	a := strings.TrimSpace(p.src[p.at : p.at+end])
	if a == "" {
		return "", p.errorf("expected a name")
	}
	p.at += end
	return a, nil
}

// predicate makes a test of slower or faster, which stands at the byte start.
func predicate(start int, name string, args []string) (test, error) {
	if len(args) < 3 || len(args) > 4 {
		return test{}, wrongAt(start,
			"%s takes target, workload, share and perhaps a metric, such as %s(vm, cpu.prime, 10%%)", name, name)
	}
	share, ok := strings.CutSuffix(args[2], "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(share), 64)
	if ok {
		v /= 100
	}
	if err != nil || !(v >= 0) || v > 1e6 {
		return test{}, wrongAt(start, "%s: %q is not a share such as 10%%", name, args[2])
	}
	if !ok && v > 1 {
		return test{}, wrongAt(start,
			"%s: %s without a percent sign means %s times more; write %s%% or a share below 1", name, args[2], args[2],
			args[2])
	}
	t := test{target: args[0], workload: args[1], op: ">", limit: 1 + v}
	if name == "faster" {
		t.op, t.limit = "<", 1/(1+v)
	}
	if len(args) == 4 {
		t.metric = args[3]
	}
	return t, nil
}

func (p *parser) comparison(start int, name string, args []string) (test, error) {
	if len(args) < 2 || len(args) > 3 {
		return test{}, wrongAt(start, "%s takes target, workload and perhaps a metric, such as %s(vm, cpu.prime)", name,
			name)
	}
	t := test{figure: name, target: args[0], workload: args[1]}
	if len(args) == 3 {
		t.metric = args[2]
	}
	for _, op := range []string{">=", "<=", ">", "<"} {
		if t.op == "" && p.sign(op) {
			t.op = op
		}
	}
	if t.op == "" {
		return t, p.errorf("expected >, >=, < or <= and a limit")
	}
	return t, p.number(&t)
}

// number reads the limit and its unit.
func (p *parser) number(t *test) error {
	p.space()
	rest := p.src[p.at:]
	end := strings.IndexFunc(rest, func(r rune) bool { return !strings.ContainsRune("0123456789.,eE+-_", r) })
	if end < 0 {
		end = len(rest)
	}
	// An e may begin a unit: 5 events/s written without a space.
	var v float64
	err := strconv.ErrSyntax
	for ; end > 0; end-- {
		if v, err = strconv.ParseFloat(ungrouped(rest[:end]), 64); !errors.Is(err, strconv.ErrSyntax) {
			break
		}
	}
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
		return p.errorf("expected a number")
	}
	p.at += end
	t.limit = v
	p.space()
	unitAt := p.at
	t.unit = p.unit()
	if t.figure == "value" {
		return nil
	}
	switch t.unit {
	case "%":
		t.limit /= 100
	case "", "x":
	default:
		return wrongAt(unitAt, "a %s has no unit; leave out %q", t.figure, t.unit)
	}
	t.unit = ""
	return nil
}

// ungrouped takes the commas between thousands out of a number as reports show it; other commas stay, and are a
// mistake.
func ungrouped(s string) string {
	whole, rest := s, ""
	if i := strings.IndexAny(s, ".eE"); i >= 0 {
		whole, rest = s[:i], s[i:]
	}
	groups := strings.Split(whole, ",")
	for i, g := range groups {
		if i > 0 && len(g) != 3 || i == 0 && len(groups) > 1 && (g == "" || len(g) > 3) {
			return s
		}
	}
	return strings.Join(groups, "") + rest
}

// unit takes what follows a number, unless it is a word of the language. After a prefix, as in "12.3 k ev/s", it is two
// words.
func (p *parser) unit() string {
	first := p.unitWord()
	if first == "" || prefixes[first] == 0 {
		return first
	}
	p.space()
	if second := p.unitWord(); second != "" {
		return first + " " + second
	}
	return first
}

func (p *parser) unitWord() string {
	if w := p.word(); w == "and" || w == "or" {
		return ""
	}
	rest := p.src[p.at:]
	end := strings.IndexAny(rest, " \t\r\n)&|!(,<>")
	if end < 0 {
		end = len(rest)
	}
	p.at += end
	return rest[:end]
}
