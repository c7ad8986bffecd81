package internal_test

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// tabColumns is how wide a tab is when the columns of a line of Go are counted.
const tabColumns = 4

func columns(line string) int {
	return utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
}

// tooWideGo returns the numbers, from 1, of the lines of a Go file that are wider than widest. What stands in a raw
// string or behind //go: cannot be broken.
func tooWideGo(src []byte) []int {
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	whole := map[int]bool{} // lines that cannot be broken
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.STRING && text[0] == '`' || strings.HasPrefix(text, "//go:") {
			first := file.Line(pos)
			for i := range 1 + strings.Count(text, "\n") {
				whole[first+i] = true
			}
		}
	}
	var out []int
	for i, l := range strings.Split(string(src), "\n") {
		if columns(l) > widest && !whole[i+1] {
			out = append(out, i+1)
		}
	}
	return out
}

// TestGoFitsColumns holds that lines of Go can be read beside each other: they have 120 columns at the most.
func TestGoFitsColumns(t *testing.T) {
	seen := 0
	for _, dir := range []string{"cmd", "internal", "bench", "scripts"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			seen++
			for _, n := range tooWideGo(src) {
				t.Errorf("%s:%d is wider than %d columns, a tab counted as %d: break it", path, n, widest, tabColumns)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 500 {
		t.Errorf("only %d files of Go were found", seen)
	}
}

// TestTooWideGoSees holds that the test above would fail.
func TestTooWideGoSees(t *testing.T) {
	long := strings.Repeat("x", widest)
	for src, want := range map[string]int{
		"package p\n\n// " + long + "\n":                     1,
		"package p\n\n\tvar " + long[:widest-8] + " int\n":   1,
		"package p\n\nvar a = `\n" + long + long + "`\n":     0,
		"package p\n\n//go:generate " + long + "\n":          0,
		"package p\n\n// " + long[:widest-3] + "\n":          0,
		"package p\n\n// " + strings.Repeat("é", 117) + "\n": 0,
	} {
		if got := len(tooWideGo([]byte(src))); got != want {
			t.Errorf("%d lines of %q are too wide, want %d", got, src, want)
		}
	}
}
