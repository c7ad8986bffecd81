package developer

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
)

// A source tree is made of modules of moduleFiles files in moduleDirs directories. Every module has the same sizes, in
// another order. A slow target, which does fewer modules, thus gets the same mixture, and the cost of a unit of work
// does not depend on the number of units.
const (
	moduleFiles = 64
	moduleDirs  = 7
)

// sourceSizes are the sizes of a module's files: the 64 mid-quantiles of the 11,478 files of Go 1.26's own source tree,
//
//	find "$(go env GOROOT)/src" -type f -printf '%s\n' | sort -n
//
// whose shape is nearly log-normal (median 1.8 KB, sigma 1.7, mean 11 KB; the mean of the quantiles is 8.8 KB, because
// the few files above 0.5 MB fall beyond the last of them).
var sourceSizes = [moduleFiles]int{
	32, 105, 170, 209, 239, 265, 291, 314, 334, 362, 391, 426, 457, 496, 538, 584,
	632, 676, 730, 789, 855, 910, 933, 957, 1005, 1077, 1153, 1243, 1329, 1453, 1555, 1702,
	1836, 1976, 2130, 2304, 2482, 2691, 2913, 3133, 3404, 3645, 3946, 4287, 4731, 5147, 5706, 6229,
	6853, 7491, 8184, 9015, 9815, 11008, 12242, 13591, 15534, 18189, 20981, 26043, 32179, 43149, 65301, 185824,
}

// moduleLayout lists a module's directories, parents first, with the number of files in each: 9 on average, most of
// them in a few large directories (in Go's tree the mean is 9.6, the median 2 and the ninth decile 16).
var moduleLayout = [moduleDirs]struct {
	path  string
	files int
}{{"", 30}, {"internal", 9}, {"internal/abi", 2}, {"testdata", 16}, {"testdata/golden", 4}, {"cmd", 1}, {"cmd/tool", 2}}

// stems are the beginnings of file names; with number and extension a name has 15.5 bytes on average, as in Go's tree.
var stems = [...]string{
	"reader", "writer", "parse", "format", "table", "index", "cache", "stream", "handler", "client", "server", "config",
	"decode", "encode",
	"filter", "socket", "buffer", "signal", "thread", "memory", "vector", "string", "number", "symbol", "object",
	"linker",
}

var extensions = [...]string{".go", ".c", ".h", ".txt", ".s", ".json"}

// source is a file of a tree.
type source struct {
	path string // relative, with slashes
	size int
	from int // offset of its content in the pool
}

// tree is a generated source tree: module m has dirs[m*moduleDirs:][:moduleDirs] and
// files[m*moduleFiles:][:moduleFiles]. Directories come before their entries.
type tree struct {
	dirs  []string
	files []source
	roots []string // of the modules
	above []string // directories above the modules, parents first
}

// newTree makes a tree of so many modules. The same seed gives the same tree everywhere, and a tree of fewer modules is
// the beginning of a larger one.
func newTree(modules int, seed uint64) *tree {
	t := &tree{}
	seen := map[string]bool{}
	for m := range modules {
		g := rand.New(rand.NewPCG(seed, 0x7472_6565<<32|uint64(m))) // "tree"
		at := moduleRoot(m)
		for d := path.Dir(at); d != "."; d = path.Dir(d) {
			if !seen[d] {
				seen[d] = true
				t.above = append(t.above, d)
			}
		}
		t.roots = append(t.roots, at)
		t.addModule(at, g)
	}
	above := t.above
	t.above = make([]string, 0, len(above))
	for depth := 0; len(t.above) < len(above); depth++ {
		for _, d := range above {
			if strings.Count(d, "/") == depth {
				t.above = append(t.above, d)
			}
		}
	}
	return t
}

// moduleRoot puts modules at depths of 2 to 4, 32 to a group, so that files lie at depths of 3 to 7; in Go's tree the
// mean is 4.4.
func moduleRoot(m int) string {
	group := fmt.Sprintf("src%03d", m/32)
	for range m % 3 {
		group += fmt.Sprintf("/sub%d", m/3%4)
	}
	return fmt.Sprintf("%s/mod%05d", group, m)
}

func (t *tree) addModule(at string, g *rand.Rand) {
	sizes := sourceSizes
	g.Shuffle(len(sizes), func(i, j int) { sizes[i], sizes[j] = sizes[j], sizes[i] })
	n := 0
	for _, l := range moduleLayout {
		dir := path.Join(at, l.path)
		t.dirs = append(t.dirs, dir)
		for range l.files {
			name := fmt.Sprintf("%s_%s%02d%s", stems[g.IntN(len(stems))], stems[g.IntN(len(stems))], n,
				extensions[g.IntN(len(extensions))])
			t.files = append(t.files, source{path: path.Join(dir, name), size: sizes[n],
				from: int(g.Uint32N(poolSize - uint32(sizes[n])))})
			n++
		}
	}
}

// modulesFor returns the number of modules that have at least so many files.
func modulesFor(files int64) int { return int((files + moduleFiles - 1) / moduleFiles) }

// treeSpace estimates the bytes that so many modules need: whole blocks of 4 KiB, plus a block of metadata for each
// file and directory, more than common file systems need.
func treeSpace(modules int) int64 {
	const block = 4096
	per := int64(moduleFiles+moduleDirs) * block
	for _, s := range sourceSizes {
		per += int64(s+block-1) / block * block
	}
	return int64(modules)*per + 1<<20
}
