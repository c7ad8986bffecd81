package internal_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// optionalFile declares the optional interfaces of environments, and has the table of them.
const optionalFile = "lab/env/optional.go"

var columnsRE = regexp.MustCompile(` {2,}`)

// optionalInterfaces are the rows of that table: the name, what it says, who asks, and what is assumed without it.
func optionalInterfaces() (rows [][]string, err error) {
	src, err := os.ReadFile(optionalFile)
	if err != nil {
		return nil, err
	}
	for l := range strings.Lines(string(src)) {
		text, ok := strings.CutPrefix(strings.TrimRight(l, "\n"), "//\t")
		if cells := columnsRE.Split(text, -1); ok && len(cells) == 4 {
			rows = append(rows, cells)
		}
	}
	if len(rows) < 10 || rows[0][0] != "interface" {
		return nil, errors.New(optionalFile + " has no table of its interfaces")
	}
	return rows[1:], nil
}

// TestOptionalInterfaces holds that the table of the optional interfaces has each of them, and names the packages that
// ask for it.
func TestOptionalInterfaces(t *testing.T) {
	rows, err := optionalInterfaces()
	if err != nil {
		t.Fatal(err)
	}
	f, err := parser.ParseFile(token.NewFileSet(), optionalFile, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var declared, told []string
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.TypeSpec); ok {
			if _, ok := s.Type.(*ast.InterfaceType); ok {
				declared = append(declared, s.Name.Name)
			}
		}
		return true
	})
	asked := map[string][]string{}
	askRE := regexp.MustCompile(`\.\((?:env\.)?([A-Z]\w+)\)`)
	for name, src := range product(t) {
		if strings.HasPrefix(name, "lab/driver/") || !strings.HasPrefix(name, "lab/env/") &&
			!strings.Contains(string(src), `"tare/internal/lab/env"`) {
			continue // a driver passes on what another one says
		}
		by := path.Base(path.Dir(name))
		for _, m := range askRE.FindAllSubmatch(src, -1) {
			if what := string(m[1]); !strings.HasSuffix(name, "/known.go") && !slices.Contains(asked[what], by) {
				asked[what] = append(asked[what], by)
			}
		}
	}
	for _, r := range rows {
		told = append(told, r[0])
		by := slices.Sorted(slices.Values(strings.Split(r[2], ", ")))
		if got := slices.Sorted(slices.Values(asked[r[0]])); !slices.Equal(got, by) {
			t.Errorf("%s is asked for by %q; the table says %q", r[0], got, by)
		}
	}
	if !slices.Equal(declared, told) {
		t.Errorf("%s declares %q; its table has %q", optionalFile, declared, told)
	}
}

// onlyTests are folders whose packages only help tests.
var onlyTests = []string{"lab/envtest/", "lab/libvirttest/", "lab/nstest/"}

// product returns the Go files below internal/ that are no tests, by their paths from there.
func product(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		name := filepath.ToSlash(path)
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
			slices.ContainsFunc(onlyTests, func(dir string) bool { return strings.HasPrefix(name, dir) }) {
			return err
		}
		all[name], err = os.ReadFile(path)
		return err
	})
	if err != nil || len(all) < 500 {
		t.Fatalf("found %d files: %v", len(all), err)
	}
	return all
}
