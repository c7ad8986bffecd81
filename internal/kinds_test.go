package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tare/internal/measure/workload"
	workall "tare/internal/measure/workload/all"
)

// ofOneKind are the places that talk of one kind of work and mean no other, each by its file and the name, with the
// reason. All others ask what a kind is: workload.Traits.
var ofOneKind = map[string]string{
	"internal/cli/ab.go command":                          "tare ab makes a plan of commands",
	"internal/cli/ab_suite.go command":                    "tare ab runs them once to see what they print",
	"internal/cli/plan.go command":                        "tare plan metrics writes a parameter of that kind",
	"internal/cli/selftest.go cpu.prime":                  "the self-test has a workload of each family",
	"internal/cli/stack.go http.get":                      "tare stack serve asks for one page",
	"internal/run/durability/examine.go durability.fsync": "an audit flushes, and does nothing else",
	"internal/run/schedule/launch.go command":             "a launch's probe is a command line",
	"internal/run/schedule/launch.go null":                "a launch is over after the least work there is",
	"internal/show/report/matrix.go fs.matrix":            "the matrix of a report is iozone's, of that kind's rows",
}

// namesKinds are functions that find a kind by its name.
var namesKinds = []string{"kind", "kinds", "Kinds", "Named", "Lookup"}

// takesApart are functions of package strings by which a part of a kind's name would be asked for.
var takesApart = []string{"HasPrefix", "HasSuffix", "Contains", "Cut", "CutPrefix", "CutSuffix", "Split", "SplitN",
	"TrimPrefix", "TrimSuffix", "Index"}

// kindLiteral is a literal in which a kind is named, or the beginning of several kinds' names.
type kindLiteral struct {
	text string
	at   token.Pos
}

// kindLiterals finds them in a file. A name without a dot is a word, too ("command", "null"): it counts where it is
// compared with a kind, given as one, or looked up.
func kindLiterals(file *ast.File, kinds []string) (found []kindLiteral) {
	var above []ast.Node
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil {
			above = above[:len(above)-1]
			return true
		}
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			text, err := strconv.Unquote(l.Value)
			if err == nil && (isPartOfKinds(text, kinds) || apart(above) ||
				slices.Contains(kinds, text) && standsForKind(l, above)) {
				found = append(found, kindLiteral{text, l.Pos()})
			}
		}
		above = append(above, n)
		return true
	})
	return found
}

// isPartOfKinds tells whether a text is a kind's name with a dot, or the beginning of one up to the dot or beyond it.
func isPartOfKinds(text string, kinds []string) bool {
	first, _, dotted := strings.Cut(text, ".")
	if !dotted || first == "" {
		return false
	}
	former := strings.HasSuffix(text, ".") && workload.Former(text).Family != ""
	return former || slices.ContainsFunc(kinds, func(k string) bool { return strings.HasPrefix(k, text) })
}

// apart tells whether a literal is that by which a kind's name is taken apart.
func apart(above []ast.Node) bool {
	call, ok := above[len(above)-1].(*ast.CallExpr)
	if !ok || len(call.Args) == 0 || !isKind(call.Args[0]) {
		return false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	in, ok := f.X.(*ast.Ident)
	return ok && in.Name == "strings" && slices.Contains(takesApart, f.Sel.Name)
}

// standsForKind tells whether a word is where a kind's name is.
func standsForKind(l *ast.BasicLit, above []ast.Node) bool {
	switch n := above[len(above)-1].(type) {
	case *ast.BinaryExpr:
		return isKind(n.X) || isKind(n.Y)
	case *ast.CaseClause:
		s, ok := above[len(above)-3].(*ast.SwitchStmt) // with its block between
		return ok && s.Tag != nil && isKind(s.Tag)
	case *ast.KeyValueExpr:
		key, ok := n.Key.(*ast.Ident)
		return ok && key.Name == "Kind" && n.Value == l
	case *ast.CallExpr:
		switch f := n.Fun.(type) {
		case *ast.Ident:
			return slices.Contains(namesKinds, f.Name)
		case *ast.SelectorExpr:
			return slices.Contains(namesKinds, f.Sel.Name)
		}
	case *ast.ValueSpec:
		return slices.ContainsFunc(n.Names, func(i *ast.Ident) bool {
			return strings.Contains(strings.ToLower(i.Name), "kind")
		})
	}
	return false
}

// isKind tells whether an expression is a kind's name: w.Kind, k.Name, kind.Name.
func isKind(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of, _ := s.X.(*ast.Ident)
	return s.Sel.Name == "Kind" || s.Sel.Name == "Name" && of != nil && (of.Name == "k" || of.Name == "kind")
}

func kindNames() (names []string) {
	for _, k := range workall.Kinds() {
		names = append(names, k.Name)
	}
	return names
}

// TestKindsAreAskedWhatTheyAre finds product source that names a kind. Tests, and what is only for them, may.
func TestKindsAreAskedWhatTheyAre(t *testing.T) {
	kinds, talked := kindNames(), map[string]bool{}
	files := token.NewFileSet()
	for _, root := range []string{"internal", "cmd"} {
		err := filepath.WalkDir(filepath.Join("..", root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
			for _, at := range []string{"internal/measure/workload/", "internal/plan/study/"} {
				if strings.HasPrefix(name, at) {
					return nil
				}
			}
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			file, err := parser.ParseFile(files, path, src, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing"` }) {
				return nil
			}
			for _, l := range kindLiterals(file, kinds) {
				place := name + " " + l.text
				if talked[place] = true; ofOneKind[place] == "" {
					t.Errorf("%s:%d names %q: ask what the kind is (workload.Traits, by all.Named), or give a "+
						"reason in ofOneKind", name, files.Position(l.at).Line, l.text)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for place := range ofOneKind {
		if !talked[place] {
			t.Errorf("ofOneKind lists %s, which is not there", place)
		}
	}
}

// TestKindLiterals holds the finder to what it is to find, and to what it is not.
func TestKindLiterals(t *testing.T) {
	for line, want := range map[string][]string{
		`_ = w.Kind == "fs.matrix"`:                      {"fs.matrix"},
		`_ = strings.HasPrefix(w.Kind, "http.")`:         {"http."},
		`_ = strings.HasPrefix(c.Kind, "web.")`:          {"web."},
		`_ = strings.HasPrefix(name, "fs.rand")`:         {"fs.rand"},
		`_ = strings.HasSuffix(w.Kind, "read")`:          {"read"},
		`_, _, _ = strings.Cut(w.Kind, ".")`:             {"."},
		`_ = []string{"dev.compile", "x", "dev.build"}`:  {"dev.compile", "dev.build"},
		`_ = map[string]int{"sql.oltp": 1}`:              {"sql.oltp"},
		`_ = w.Kind != "command"`:                        {"command"},
		`_ = "restore" == w.Kind`:                        {"restore"},
		`_ = k.Name == "null"`:                           {"null"},
		`switch w.Kind { case "command", "syscall": }`:   {"command", "syscall"},
		`_ = wire.Job{Kind: "null"}`:                     {"null"},
		`_ = all.Named("command")`:                       {"command"},
		`const kindCommand = "command"`:                  {"command"},
		`_ = w.Params["command"]`:                        nil,
		`_ = e.Driver == "command"`:                      nil,
		`switch e.Driver { case "command": }`:            nil,
		`_ = "null"`:                                     nil,
		`_ = "net.ipv4.ip_forward" + "memory.thp" + "."`: nil,
		`_ = "measure a page with -w http.load"`:         nil,
		`_ = t.Error.Kind == "refused"`:                  nil,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() {\n"+line+"\n}\n", 0)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var got []string
		for _, l := range kindLiterals(file, kindNames()) {
			got = append(got, l.text)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: found %q, want %q", line, got, want)
		}
	}
}
