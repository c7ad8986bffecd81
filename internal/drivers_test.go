package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	envall "tare/internal/lab/driver/all"
	"tare/internal/lab/env"
)

// driverFolders may say the names of drivers: the drivers themselves, the studies that compare certain ones, and what
// stands below the drivers, where such a word is a program, a device or a system that a guest finds.
var driverFolders = []string{"lab/driver/", "plan/study/", "measure/", "sys/"}

// driverPlaces are the files that really talk of one driver: for each of its words the reason.
var driverPlaces = map[string]map[string]string{}

// plainWords are drivers' names that are words of everyday, too: one counts where drivers are spoken of.
var plainWords = []string{"command", env.Host, "local", "namespace", "serial", "ssh"}

var (
	aboutDriversRE = regexp.MustCompile(`(?i)driver`)
	mountOfRE      = regexp.MustCompile(`(?i)(^|\.)(m|mount)\.Kind$`)
)

// driverWords returns the literals of a file that name a driver, or a spec of one, and those with which a mount's kind
// is compared, by their lines.
func driverWords(src []byte, drivers, kinds []string) (map[string]int, error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, "", src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	specRE := regexp.MustCompile(`^(?:[\w-]+=)?(` + strings.Join(drivers, "|") + `)(?:[:?]\S*)?$`)
	found := map[string]int{}
	text := func(n ast.Node) string { return string(src[n.Pos()-1 : n.End()-1]) }
	var around []ast.Node // from the file to the node
	ast.Inspect(f, func(n ast.Node) bool {
		if n == nil {
			around = around[:len(around)-1]
			return true
		}
		around = append(around, n)
		if field, ok := n.(*ast.Field); ok && field.Tag != nil {
			return true
		}
		l, ok := n.(*ast.BasicLit)
		if !ok || l.Kind != token.STRING {
			return true
		}
		v, err := strconv.Unquote(l.Value)
		if err != nil {
			return true
		}
		parent := around[len(around)-2]
		m := specRE.FindStringSubmatch(v)
		switch {
		case m != nil && (!slices.Contains(plainWords, v) || aboutDriversRE.MatchString(spoken(around, text))):
			found[v] = files.Position(l.Pos()).Line
		case slices.Contains(kinds, v):
			if b, ok := parent.(*ast.BinaryExpr); ok && mountOfRE.MatchString(text(b.X)) {
				found[v] = files.Position(l.Pos()).Line
			}
		}
		return true
	})
	return found, nil
}

// spoken is what is said around a literal: the smallest statement, key and value, or declaration that it is in, and of
// a case also what is switched on.
func spoken(around []ast.Node, text func(ast.Node) string) string {
	for i, n := range slices.Backward(around) {
		switch n := n.(type) {
		case *ast.CaseClause:
			for _, outer := range slices.Backward(around[:i]) {
				if s, ok := outer.(*ast.SwitchStmt); ok && s.Tag != nil {
					return text(s.Tag)
				} else if ok {
					break
				}
			}
			said := ""
			for _, x := range n.List {
				said += text(x) + " "
			}
			return said
		case *ast.KeyValueExpr:
			return text(n.Key)
		case *ast.IfStmt:
			return text(n.Cond)
		case *ast.BinaryExpr, *ast.AssignStmt, *ast.ValueSpec, *ast.ExprStmt, *ast.ReturnStmt, *ast.RangeStmt:
			return text(n)
		case *ast.BlockStmt:
			return ""
		}
	}
	return ""
}

// TestDriversSayWhatTheyAre holds that who wants to know what an environment is asks its driver's row (env.Nature) and
// does not compare names, so that a new driver, or another name, is judged by what it is.
func TestDriversSayWhatTheyAre(t *testing.T) {
	names := append(envall.Known().Names(), env.Host)
	kinds := map[string]bool{}
	for _, d := range envall.Known().All() {
		for _, k := range d.Mounts {
			kinds[k.Name] = true
		}
	}
	used := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(product(t))) {
		if slices.ContainsFunc(driverFolders, func(dir string) bool { return strings.HasPrefix(name, dir) }) {
			continue
		}
		found, err := driverWords(product(t)[name], names, slices.Collect(maps.Keys(kinds)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for word, line := range found {
			if driverPlaces[name][word] == "" {
				t.Errorf("%s:%d says %q: ask the driver's row for what you want to know of it (lab/env/nature.go)", name,
					line, word)
			}
			used[fmt.Sprint(name, word)] = true
		}
	}
	for name, words := range driverPlaces {
		for word := range words {
			if !used[fmt.Sprint(name, word)] {
				t.Errorf("driverPlaces excuses %q in %s, where it is no more", word, name)
			}
		}
	}
}
