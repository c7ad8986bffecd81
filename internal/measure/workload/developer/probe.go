package developer

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/record"
)

// Steps of a resolution, each with its expected result.
const (
	statMissing = iota
	statThere
	openMissing
	readThere // open, read whole, close
)

type step struct {
	do int
	on string
}

// resolution lists what Node.js 20 does to resolve and load one package and one file beside the importing one, as
//
//	strace -f -e trace=file node a/b/c/d/index.js
//
// shows it, where index.js is require("left"); require("./near"), the package lies in the top folder's node_modules and
// its package.json names lib/index.js: node_modules is looked for in each folder on the way up; the package's folder is
// also tried as a file with each extension; and package.json is looked for beside what was found. What Node.js caches
// between resolutions, such as the links of a path, is left out. More than three candidates stand for TypeScript and
// bundlers, which try more extensions.
func resolution(dir, pkg string, near, candidates int) []step {
	var steps []step
	add := func(do int, on string) { steps = append(steps, step{do, on}) }
	for d := dir; d != "."; d = path.Dir(d) {
		add(statMissing, path.Join(d, "node_modules"))
	}
	add(statThere, "node_modules")
	add(readThere, path.Join(pkg, "package.json"))
	add(statThere, pkg)
	for c := range candidates {
		add(statMissing, pkg+candidate(c))
	}
	add(statThere, path.Join(pkg, "lib/index.js"))
	add(openMissing, path.Join(pkg, "lib/package.json"))
	add(readThere, path.Join(pkg, "lib/index.js"))
	file := path.Join(dir, fmt.Sprintf("near%04d", near))
	add(statMissing, file)
	add(statThere, file+".js")
	add(readThere, file+".js")
	return steps
}

// candidate returns the extension number c.
func candidate(c int) string {
	known := [...]string{".js", ".json", ".node", ".ts", ".tsx", ".d.ts", ".mjs", ".cjs", ".jsx", ".mts", ".cts",
		".vue", ".wasm", ".css"}
	if c < len(known) {
		return known[c]
	}
	return fmt.Sprintf(".x%d", c)
}

// leaves is the number of folders over which the importing files are spread.
const leaves = 64

// leaf is the folder of that number, so many levels below the top.
func leaf(n, depth int) string {
	parts := make([]string, depth)
	for i := range parts {
		parts[i] = fmt.Sprintf("%s%d", []string{"app", "views", "forms", "parts"}[i%4], n>>(2*(depth-1-i))&3)
	}
	return path.Join(parts...)
}

// readStep is the size of a step's read, in bytes: more than any of the files has.
const readStep = 4 << 10

// probe is one trial of dev.probe.
type probe struct {
	standing
	packages, depth, candidates int
	cache                       string
	names                       []name // of all steps of all resolutions
	do                          []int  // what each step of a resolution does
	sizes                       []int  // length of the file that it reads; 0 when it reads none
	status                      status
	buf                         []byte
}

func packageFolder(i int) string { return fmt.Sprintf("node_modules/package%05d", i) }

// files returns the contents of the folder's files by name.
func (p *probe) files() map[string][]byte {
	out := map[string][]byte{}
	for i := range p.packages {
		pkg := packageFolder(i)
		out[pkg+"/package.json"] = fmt.Appendf(nil,
			"{\"name\":\"package%05d\",\"version\":\"1.%d.0\",\"license\":\"MIT\",\"main\":\"lib/index.js\"%s}\n", i,
			i%90, strings.Repeat(" ", 400+i%7*100))
		out[pkg+"/lib/index.js"] = fmt.Appendf(nil, "module.exports = %d;%s\n", i, strings.Repeat(" ", 1000+i%11*100))
		out[fmt.Sprintf("%s/near%04d.js", leaf(i%leaves, p.depth), i)] = fmt.Appendf(nil, "module.exports = %d;%s\n", i,
			strings.Repeat(" ", 500+i%13*100))
	}
	return out
}

func (p *probe) fill(ctx context.Context) error {
	files := p.files()
	for _, at := range slices.Sorted(maps.Keys(files)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.write(at, files[at]); err != nil {
			return err
		}
	}
	return nil
}

// Setup makes packages and importing files unless they are there, and the steps of all resolutions.
func (p *probe) Setup(ctx context.Context, b *workload.Bench) error {
	key := fmt.Sprintf("%d packages, depth %d, form 1", p.packages, p.depth)
	if err := p.ensure(ctx, b, "modules", key, int64(p.packages)*5*4096+1<<20,
		int64(p.packages)*5+leaves*int64(p.depth)+1, p.fill); err != nil {
		return err
	}
	files := p.files()
	order := rand.New(rand.NewPCG(b.Seed, 0x7072_6f62_65)).Perm(p.packages) // "probe"
	for i, pkg := range order {
		steps := resolution(leaf(pkg%leaves, p.depth), packageFolder(pkg), pkg, p.candidates)
		for _, s := range steps {
			p.names = append(p.names, p.root.name(s.on))
			p.sizes = append(p.sizes, map[bool]int{true: len(files[s.on])}[s.do == readThere])
			if i == 0 {
				p.do = append(p.do, s.do)
			}
		}
	}
	misses := 0
	for _, d := range p.do {
		if d == statMissing || d == openMissing {
			misses++
		}
	}
	b.Check("lookups", strconv.Itoa(len(p.do)))
	b.Check("missing", strconv.Itoa(misses))
	b.Check("order", fileio.Digest(fmt.Append(nil, order)))
	p.buf = fileio.Aligned(readStep)
	clear(p.buf)
	return bring(ctx, b, p.path, p.cache)
}

// Measure does b.Work resolutions; after the last package it begins again with the first.
func (p *probe) Measure(ctx context.Context, b *workload.Bench) error {
	leave, err := p.alone()
	if err != nil {
		return err
	}
	defer leave()
	at := 0
	for i := range b.Work {
		if i%256 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		for _, do := range p.do {
			if err := p.step(do, at); err != nil {
				p.discard()
				return err
			}
			at++
		}
		if at == len(p.names) {
			at = 0
		}
	}
	return nil
}

func (p *probe) step(do, at int) error {
	n := p.names[at]
	var err error
	switch do {
	case statMissing, statThere:
		err = p.root.lstat(n, &p.status)
	case openMissing:
		var h handle
		if h, err = p.root.open(n, forReading); err == nil {
			err = h.close()
		}
	case readThere:
		return p.load(n, p.sizes[at])
	}
	if do == statThere {
		return p.explain(err)
	}
	if err == nil {
		return &record.Failure{Kind: "measure",
			Message: fmt.Sprintf("lookup %d of a resolution found a file below %s that does not exist", at%len(p.do),
				p.path)}
	}
	if !absent(err) {
		return p.explain(err)
	}
	return nil
}

func (p *probe) load(n name, size int) error {
	h, err := p.root.open(n, forReading)
	if err != nil {
		return p.explain(err)
	}
	got, err := h.read(p.buf)
	if e := h.close(); err == nil {
		err = e
	}
	if err == nil && got != size {
		err = fmt.Errorf("read %d bytes, but %d were written", got, size)
	}
	return p.explain(err)
}

func (p *probe) explain(err error) error {
	if err == nil {
		return nil
	}
	return fileio.Explain("look up below", p.path, err)
}

// Report turns resolutions into rates.
func (p *probe) Report(b *workload.Bench) error {
	b.Report("resolutions_per_second", b.Rate(1))
	b.Report("lookups_per_second", b.Rate(float64(len(p.do))))
	return nil
}

// Cleanup keeps the files for the next trial.
func (p *probe) Cleanup(*workload.Bench) error { return p.close() }
