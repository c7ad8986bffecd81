package restore

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type entry struct {
	h    tar.Header
	body string
}

func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		e.h.Size, e.h.Mode = int64(len(e.body)), 0o644
		if err := w.WriteHeader(&e.h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func file1(name, body string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name}, body}
}

func link(name, target string) entry {
	return entry{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}, ""}
}

// unpackBeside unpacks into a folder beside which there is a file that must stay as it is.
func unpackBeside(t testing.TB, archive []byte) (dir string, err error) {
	t.Helper()
	above := t.TempDir()
	dir = filepath.Join(above, "tree")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(above, "mine")
	if err := os.WriteFile(mine, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	_, err = unpack(bytes.NewReader(archive), root, make([]byte, 4096))
	list, e := os.ReadDir(above)
	if e != nil || len(list) != 2 {
		t.Fatalf("beside the tree there is %v, %v", list, e)
	}
	if p, e := os.ReadFile(mine); e != nil || string(p) != "precious" {
		t.Fatalf("a file beside the tree holds %q, %v", p, e)
	}
	return dir, err
}

// TestMaliciousArchives: nothing is written outside the tree, whatever an archive says.
func TestMaliciousArchives(t *testing.T) {
	for name, entries := range map[string][]entry{
		"absolute":                 {file1("/mine", "x")},
		"up":                       {file1("../mine", "x")},
		"up inside":                {file1("a/../../mine", "x")},
		"up at the end":            {entry{tar.Header{Typeflag: tar.TypeDir, Name: "a/../.."}, ""}},
		"backslash":                {file1(`..\mine`, "x")},
		"link up":                  {link("a", "../mine"), file1("a", "x")},
		"link to an absolute":      {link("a", "/etc/passwd")},
		"link and through it":      {link("a", ".."), file1("a/mine", "x")},
		"two links, each innocent": {link("a", "."), link("a/b", ".."), file1("b/mine", "x")},
		"links that lead up by way": {entry{tar.Header{Typeflag: tar.TypeDir, Name: "d/"}, ""}, link("d/l", "."),
			link("m", "d/l/../../.."), file1("m/mine", "x")},
		"a link by way of another": {entry{tar.Header{Typeflag: tar.TypeDir, Name: "d/"}, ""}, link("d/l", "."),
			link("m", "d/l/../../mine")},
		"a link beyond itself": {link("a", "."), link("a/b", "..")},
		"a link to itself":     {link("a", "a")},
		"hard link":            {entry{tar.Header{Typeflag: tar.TypeLink, Name: "a", Linkname: "../mine"}, ""}},
		"device": {entry{tar.Header{Typeflag: tar.TypeChar, Name: "a", Devmajor: 1, Devminor: 3},
			""}},
		"pipe":        {entry{tar.Header{Typeflag: tar.TypeFifo, Name: "a"}, ""}},
		"twice":       {file1("a", "x"), file1("a", "y")},
		"over a link": {file1("b", "x"), link("a", "b"), file1("a", "y")},
	} {
		t.Run(name, func(t *testing.T) {
			if dir, err := unpackBeside(t, tarOf(t, entries...)); err == nil {
				t.Errorf("it is unpacked into %s", dir)
			}
		})
	}
}

func TestUnpack(t *testing.T) {
	dir, err := unpackBeside(t, tarOf(t, file1("a/b/c.txt", "deep"),
		entry{tar.Header{Typeflag: tar.TypeDir, Name: "a/"}, ""}, link("a/l", "b/c.txt"), file1("a/empty", "")))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := os.ReadFile(filepath.Join(dir, "a/l")); err != nil || string(p) != "deep" {
		t.Errorf("through the link: %q, %v", p, err)
	}
	got, err := sumTree(dir, "a")
	if err != nil || got.Files != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(tarOf(f, file1("a/b", "x"), link("l", "a/b")))
	f.Add(tarOf(f, link("a", "."), link("a/b", ".."), file1("b/mine", "x")))
	f.Fuzz(func(t *testing.T, p []byte) {
		if len(p) > 1<<16 {
			return
		}
		dir, _ := unpackBeside(t, p)
		_ = filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
			if err == nil && d.Type()&^(fs.ModeDir|fs.ModeSymlink) != 0 {
				t.Errorf("%s is neither file nor directory nor link", at)
			}
			return nil
		})
	})
}

const dumpText = `-- forum
CREATE TABLE posts (id bigint);
COPY posts (id, t) FROM stdin;
1	a
3	c
5	e
\.
COPY users (id, t) FROM stdin;
\.
CREATE INDEX x;
`

func mergeTexts(dump string, deltas ...string) (string, error) {
	in := newLines("dump")
	in.reset(strings.NewReader(dump))
	var later []*lines
	for _, d := range deltas {
		l := newLines("delta")
		l.reset(strings.NewReader(d))
		later = append(later, l)
	}
	var out bytes.Buffer
	err := merge(&out, in, later...)
	return out.String(), err
}

func TestMerge(t *testing.T) {
	rows := func(table, text string) string { return "COPY " + table + " (id, t) FROM stdin;\n" + text + "\\.\n" }
	got, err := mergeTexts(dumpText, rows("posts", "0\tz\n3\tC1\n5\tE1\n"),
		"\n-- later\n"+rows("posts", "3\tC2\n9\ti\n")+rows("users", "7\tu\n"))
	want := strings.Replace(dumpText, "1\ta\n3\tc\n5\te\n", "0\tz\n1\ta\n3\tC2\n5\tE1\n9\ti\n", 1)
	want = strings.Replace(want, "FROM stdin;\n\\.", "FROM stdin;\n7\tu\n\\.", 1)
	if err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
	if got, err := mergeTexts(dumpText); err != nil || got != dumpText {
		t.Errorf("without deltas: %v\n%s", err, got)
	}
	for name, c := range map[string]struct{ dump, delta, want string }{
		"delta not in order":    {dumpText, rows("posts", "3\tx\n3\ty\n"), "not in order"},
		"dump not in order":     {strings.Replace(dumpText, "1\ta", "4\ta", 1), "", "not in order"},
		"no key":                {dumpText, rows("posts", "x\ty\n"), "does not begin with a key"},
		"huge key":              {dumpText, rows("posts", "99999999999999999999\ty\n"), "does not begin with a key"},
		"unknown table":         {dumpText, rows("topics", "1\ty\n"), "not in the dump"},
		"tables in wrong order": {dumpText, rows("users", "1\ty\n") + rows("posts", "1\tq\n"), "in another order"},
		"statements in a delta": {dumpText, "DROP TABLE posts;\n", "only rows"},
		"rows without end":      {dumpText, "COPY posts (id) FROM stdin;\n1\tx\n", "no end"},
		"dump's rows cut":       {"COPY posts (id) FROM stdin;\n1\tx\n", "", "no end"},
		"cut in a line":         {dumpText, "COPY posts (id) FROM stdin;\n1\tx", "ends within the line"},
		"a line without an end": {dumpText, "--" + strings.Repeat("x", maxLine+1), "longer than"},
	} {
		if _, err := mergeTexts(c.dump, c.delta); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzMerge(f *testing.F) {
	f.Add(dumpText, "COPY posts (id, t) FROM stdin;\n3\tx\n\\.\n", "")
	f.Add(dumpText, "COPY users (id, t) FROM stdin;\n\\.\n", "COPY posts (id) FROM stdin;\n4\t\n\\.\n")
	f.Fuzz(func(t *testing.T, dump, first, second string) {
		got, err := mergeTexts(dump, first, second)
		if err != nil {
			return
		}
		// What was merged can be merged again with nothing, and stays what it is.
		again, err := mergeTexts(got)
		if err != nil || again != got {
			t.Fatalf("%v\n%q\n%q", err, got, again)
		}
		if strings.Count(got, "\n") < strings.Count(dump, "\n") {
			t.Fatalf("lines were lost: %q of %q", got, dump)
		}
	})
}

func TestSumDump(t *testing.T) {
	rows, _, err := sumDump(strings.NewReader(dumpText))
	if err != nil || rows[posts] != 3 || rows[users] != 0 {
		t.Errorf("%v, %v", rows, err)
	}
	for _, bad := range []string{"COPY strangers (id) FROM stdin;\n\\.\n", "COPY posts (id) FROM stdin;\n1\t\n"} {
		if _, _, err := sumDump(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is no error", bad)
		}
	}
}

func TestInside(t *testing.T) {
	for name, want := range map[string]string{"a": "a", "./a/": "a", "a//b/../c": "a/c", ".": "."} {
		if got, err := inside(name); err != nil || got != want {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	for _, bad := range []string{"", "/", "..", "a/../..", "../a", "a\x00b", `a\..\b`} {
		if _, err := inside(bad); err == nil {
			t.Errorf("%q is inside", bad)
		}
	}
}
