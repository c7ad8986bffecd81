package developer

import (
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestTreeIsMadeOfEqualModules(t *testing.T) {
	tr := newTree(70, 3)
	if len(tr.files) != 70*moduleFiles || len(tr.dirs) != 70*moduleDirs || len(tr.roots) != 70 {
		t.Fatalf("%d files, %d directories, %d modules", len(tr.files), len(tr.dirs), len(tr.roots))
	}
	want := slices.Sorted(slices.Values(sourceSizes[:]))
	made, seen := map[string]bool{".": true}, map[string]bool{}
	for _, d := range tr.above {
		if !made[path.Dir(d)] {
			t.Errorf("%s comes before what it lies in", d)
		}
		made[d] = true
	}
	name := 0
	for m := range 70 {
		var sizes []int
		for _, d := range tr.dirs[m*moduleDirs : (m+1)*moduleDirs] {
			if !made[path.Dir(d)] || made[d] {
				t.Errorf("%s comes before what it lies in, or twice", d)
			}
			made[d] = true
		}
		for _, f := range tr.files[m*moduleFiles : (m+1)*moduleFiles] {
			if seen[f.path] || !made[path.Dir(f.path)] {
				t.Errorf("%s is there twice, or its directory is not", f.path)
			}
			if f.from < 0 || f.from+f.size > poolSize {
				t.Errorf("%s is cut from %d to %d", f.path, f.from, f.from+f.size)
			}
			seen[f.path] = true
			sizes = append(sizes, f.size)
			name += len(path.Base(f.path))
		}
		if !slices.Equal(slices.Sorted(slices.Values(sizes)), want) {
			t.Errorf("module %d has other sizes", m)
		}
	}
	if mean := float64(name) / float64(len(tr.files)); mean < 14 || mean > 18 {
		t.Errorf("names are %.1f bytes long on average", mean)
	}
	if part := newTree(5, 3); !reflect.DeepEqual(part.files, tr.files[:5*moduleFiles]) {
		t.Error("a smaller tree is not the beginning of a larger one")
	}
	if other := newTree(5, 4); reflect.DeepEqual(other.files, tr.files[:5*moduleFiles]) {
		t.Error("two seeds give one tree")
	}
}

// TestWholeTree: the tree of the default has the files it promises and takes no more room than is asked for.
func TestWholeTree(t *testing.T) {
	k := kind(t, "dev.unpack")
	p, err := k.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := k.WorkLimit(p) * moduleFiles; n < 30000 || n >= 30000+moduleFiles {
		t.Errorf("a trial unpacks up to %d files", n)
	}
	if got, whole := k.Space(p), k.WorkLimit(p)*moduleBytes(); got < whole || got > 3*whole {
		t.Errorf("%d bytes of content are expected to take %d", whole, got)
	}
}

func TestHeadersOfUnits(t *testing.T) {
	misses := 0
	for _, d := range headerDir {
		if d < 0 || d >= includeDirs {
			t.Errorf("a header lies in folder %d of %d", d, includeDirs)
		}
		misses += d * (headerVariants - 1)
	}
	if misses != 129 {
		t.Errorf("a unit has %d misses, and 129 are documented", misses)
	}
	var all [headerClasses][headerVariants]included
	for c := range all {
		for v := range all[c] {
			all[c][v].size = c*headerVariants + v + 1
		}
	}
	for u := range headerVariants {
		distinct := map[int]bool{}
		classes := map[int]int{}
		for _, h := range new(site).headers(u, all) {
			distinct[h.size] = true
			classes[(h.size-1)/headerVariants]++
		}
		if len(distinct) != headersPerUnit {
			t.Errorf("unit %d includes %d headers, want %d", u, len(distinct), headersPerUnit)
		}
		for c, n := range classes {
			if n != headerVariants-1 {
				t.Errorf("unit %d includes %d headers of class %d", u, n, c)
			}
		}
	}
	if n := objectSize(); n < 16000 || n > 17000 {
		t.Errorf("an object has %d bytes", n)
	}
}

func TestResolution(t *testing.T) {
	steps := resolution("a/b/c/d", "node_modules/left", 1, 3)
	misses := 0
	for _, s := range steps {
		if s.do == statMissing || s.do == openMissing {
			misses++
		}
	}
	if steps[0].on != "a/b/c/d/node_modules" || steps[3].on != "a/node_modules" ||
		steps[4] != (step{statThere, "node_modules"}) || misses != 9 || len(steps) != 16 {
		t.Errorf("%d steps, %d misses: %v", len(steps), misses, steps)
	}
	places := map[string]bool{}
	for n := range leaves {
		places[leaf(n, 5)] = true
	}
	if len(places) != leaves {
		t.Errorf("%d importing files in a row lie in %d folders", leaves, len(places))
	}
	if got := strings.Count(leaf(3, 7), "/"); got != 6 {
		t.Errorf("a folder at depth 7 has %d above it", got)
	}
}

// TestProject: other seeds give other programs, and the same seed the same one.
func TestProject(t *testing.T) {
	a, b, c := project{3, 20, 4, 1}, project{3, 20, 4, 1}, project{3, 20, 4, 2}
	if !reflect.DeepEqual(a.files(), b.files()) || a.answer() != b.answer() {
		t.Error("one seed gives two projects")
	}
	if reflect.DeepEqual(a.files(), c.files()) || a.answer() == c.answer() {
		t.Error("two seeds give one project")
	}
	one := project{1, 1, 1, 9}
	if s := one.steps(ofUnit, 0, 1)[0]; one.answer() != one.steps(ofHeader, 0, 1)[0].apply(s.apply(1)) {
		t.Error("the answer is not what the functions give")
	}
}

// TestWalker walks and removes a tree of its own: names as long as they come, many in one directory, links, and depths
// beyond those of any module.
func TestWalker(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "t")
	deep := dir
	for range 20 {
		deep = filepath.Join(deep, "d")
	}
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	const many = 700
	for i := range many {
		name := strings.Repeat("n", 251) + string(rune('a'+i/26%26)) + string(rune('a'+i%26)) + string(rune('a'+i/676))
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	outside := filepath.Join(top, "outside")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(top, filepath.Join(deep, "link")); err != nil {
		t.Fatal(err)
	}
	r, err := openRoot(top)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	w := newWalker()
	if err := w.walk(r, r.name("t")); err != nil {
		t.Fatal(err)
	}
	want, err := seen(dir)
	if err != nil {
		t.Fatal(err)
	}
	if w.counts != want || want != (counts{21, many + 1}) {
		t.Errorf("the walk saw %+v, and there are %+v", w.counts, want)
	}
	if err := newWalker().remove(r, r.name("t")); err != nil {
		t.Fatal(err)
	}
	if left, err := seen(top); err != nil || left != (counts{1, 1}) {
		t.Errorf("after the removal there are %+v, %v", left, err)
	}
	if err := w.walk(r, r.name("t")); !absent(err) {
		t.Errorf("a walk of nothing gave %v", err)
	}
	if _, err := openRoot(outside); err == nil {
		t.Error("a file is opened as a folder")
	}
}
