package image

import (
	"errors"
	"fmt"
	"io"
	"os"
)

const (
	pageBytes = 64 << 10
	pageSets  = 16 // with pageWays: 4 MiB in all, for every image
	// pageWays is the number of pages kept per set. A look-up in two levels of tables uses two pages in turn. If one
	// evicted the other, both would be read again for every entry.
	pageWays = 4
	// maxTables and maxSteps bound the work that tables can cause. The largest valid table is that of a VHDX of 64 TiB
	// (512 MiB) or a VDI of 512 TiB (2 GiB). If more is read, tables are used twice or form a loop.
	maxTables = 4 << 30
	maxSteps  = 1 << 30
	maxFiles  = 4096
	// maxProblems bounds the kinds of problems that are kept for each chain. Repetitions are only counted.
	maxProblems = 64
)

// errEndless is the error of tables that are larger than any valid image has.
var errEndless = errors.New("its tables are longer than any image needs, or form a loop")

// file is an open file of an image.
type file struct {
	f    *os.File
	name string
	size int64
	id   int // index in store.files
}

// page is a page of a file; n bytes of it exist.
type page struct {
	f    *file
	at   int64
	n    int
	data []byte
	used int64 // when it was last used, counted in changes of a set's newest page
}

// pageSet holds pages whose numbers have the same remainder.
type pageSet struct {
	ways   [pageWays]page
	newest int // the page that was used last
}

// store is shared by all images of a chain: files, the cache of tables, problems.
type store struct {
	files     []*file
	sets      [pageSets]pageSet
	now       int64 // clock of page.used
	tables    int64 // bytes of tables read
	steps     int64 // entries read
	problems  []Problem
	snapshots int                // listed
	kinds     map[problemKey]int // index in problems
	used      []*bitmap          // by file: blocks that a guest offset maps to
	entered   []*bitmap          // by file: tables that a walk has read
	room      int64              // words left for bitmaps
	walking   bool
	walks     int // number of begins and ends of walks
}

type problemKey struct{ code, where string }

func newStore() *store { return &store{kinds: map[problemKey]int{}} }

// open opens a regular file or a block device. It rejects everything else before opening it: opening a FIFO would
// block, and opening a device may have an effect.
func (s *store) open(name string) (*file, error) {
	if len(s.files) == maxFiles {
		return nil, fmt.Errorf("it has more than %d files", maxFiles)
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if m := info.Mode(); !m.IsRegular() && (m&os.ModeDevice == 0 || m&os.ModeCharDevice != 0) {
		return nil, fmt.Errorf("open %s: it is neither a regular file nor a block device", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("find the size of %s: %w", name, err)
	}
	x := &file{f: f, name: name, size: size, id: len(s.files)}
	s.files = append(s.files, x)
	s.used, s.entered = append(s.used, nil), append(s.entered, nil)
	return x, nil
}

func (s *store) byName(name string) *file {
	for _, f := range s.files {
		if f.name == name {
			return f
		}
	}
	return nil
}

func (s *store) close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.f.Close())
	}
	s.files = nil
	return errors.Join(errs...)
}

// header reads n bytes, where n is a constant of the format, not a number from the file. Bytes past the end read as
// zeros; ok says whether all of them exist.
func (f *file) header(off int64, n int) (b []byte, ok bool, err error) {
	b = make([]byte, n)
	if off < 0 || off > f.size {
		return b, false, nil
	}
	got, err := f.f.ReadAt(b, off)
	if err == io.EOF {
		err = nil
	}
	return b, got == n, err
}

// words returns bytes of a table from off on: at least one entry, at most up to the end of the cached page. The slice
// is valid until the next call. off is a multiple of entry, which divides the page size.
func (s *store) words(f *file, off int64, entry int) ([]byte, error) {
	if off < 0 || off%int64(entry) != 0 || off > f.size-int64(entry) {
		return nil, fmt.Errorf("a table ends at %d, past the end of the file", off)
	}
	base := off &^ (pageBytes - 1)
	p, err := s.page(f, base)
	if err != nil {
		return nil, err
	}
	b := p.data[off-base : p.n]
	if len(b) < entry {
		return nil, fmt.Errorf("a table ends at %d, past the end of the file", off)
	}
	return b[:len(b)/entry*entry], nil
}

// page returns the page of a file that begins at base, and caches it.
func (s *store) page(f *file, base int64) (*page, error) {
	set := &s.sets[(uint64(base/pageBytes)+uint64(f.id)*31)%pageSets]
	if p := &set.ways[set.newest]; p.f == f && p.at == base {
		return p, nil
	}
	s.now++
	oldest := 0
	for i := range set.ways {
		p := &set.ways[i]
		if p.f == f && p.at == base {
			p.used, set.newest = s.now, i
			return p, nil
		}
		if p.used < set.ways[oldest].used {
			oldest = i
		}
	}
	p := &set.ways[oldest]
	if p.data == nil {
		p.data = make([]byte, pageBytes)
	}
	p.f = nil
	n, err := f.f.ReadAt(p.data, base)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("read a table at %d: %w", base, err)
	}
	*p = page{f: f, at: base, n: n, data: p.data, used: s.now}
	set.newest = oldest
	if s.tables += int64(n); s.tables > maxTables {
		return nil, errEndless
	}
	return p, nil
}

// step counts a look-up and the entries that it read.
func (s *store) step(n int) error {
	const lookup = 8 // the rest of a look-up takes as long as reading this many entries
	if s.steps += int64(n) + lookup; s.steps > maxSteps {
		return errEndless
	}
	return nil
}

// problem records a problem. Of each kind in a file it keeps only the first, with a count.
func (s *store) problem(f *file, code string, guest int64, text string) {
	key := problemKey{code, f.name}
	if i, ok := s.kinds[key]; ok {
		s.problems[i].Count++
		return
	}
	if len(s.problems) == maxProblems {
		return
	}
	s.kinds[key] = len(s.problems)
	s.problems = append(s.problems, Problem{Code: code, Text: fmt.Sprintf("%s: %s", f.name, text), Count: 1,
		Guest: guest})
}

// The kinds of damage that a walk through the tables can find.
const (
	ProblemOutside = "block-outside" // a table points past the end of the file
	ProblemOverlap = "block-overlap" // two guest blocks share one place
	ProblemTable   = "table-damaged" // a table is outside the file or at an impossible place
)

// claim records that a guest block lies at a host offset. It reports blocks outside the file, and two blocks at one
// place. It works only during a walk, where guest offsets increase; a repeated look-up does not count twice.
func (s *store) claim(f *file, guest, host, block int64) {
	if !s.walking {
		return
	}
	u := s.used[f.id]
	if u == nil {
		u = s.bitmap(f.size / block)
		s.used[f.id] = u
	}
	if guest < u.walked {
		return
	}
	u.walked = guest + 1
	if host < 0 || host >= f.size {
		s.problem(f, ProblemOutside, guest,
			"blocks are past the end of the file: it is truncated, or its tables are damaged")
		return
	}
	if u.set(host / block) {
		s.problem(f, ProblemOverlap, guest, "guest blocks share one place in the file: writing one destroys the other")
	}
}

// enter records, during a walk, that the walk reads table number n of a file, in units of that many bytes. It tells
// whether that table was read before. If so, the table is used twice, and following it again might never end.
func (s *store) enter(f *file, n, bytes int64) (again bool) {
	if !s.walking {
		return false
	}
	if s.entered[f.id] == nil {
		s.entered[f.id] = s.bitmap(f.size / bytes)
	}
	return s.entered[f.id].set(n)
}

// visit remembers the first-level entry that a walk is in.
type visit struct {
	walk  int
	entry int64
	again bool
}

// visited tells, during a walk, whether second-level table number n, of that many bytes, was already read for another
// first-level entry.
func (v *visit) visited(s *store, f *file, entry, n, bytes int64) bool {
	if v.walk != s.walks || v.entry != entry {
		v.walk, v.entry = s.walks, entry
		v.again = s.enter(f, n, bytes)
	}
	return v.again
}

// bitmap makes a bitmap for that many blocks, or for fewer if the memory bound is reached.
func (s *store) bitmap(blocks int64) *bitmap {
	words := min(blocks/64+1, s.room)
	s.room -= words
	return &bitmap{bits: make([]uint64, words)}
}

// walk begins or ends a walk through the whole map.
func (s *store) walk(on bool) {
	s.walking, s.room = on, maxBitmaps/8
	s.walks++
	clear(s.used)
	clear(s.entered)
}

// bitmap records which blocks of a file are in use. Blocks that do not overlap have different numbers, even if they are
// not aligned to their size, as in a VHD.
type bitmap struct {
	bits   []uint64
	walked int64 // guest offsets below this are already recorded
}

// maxBitmaps bounds the memory of all bitmaps of a chain, in bytes. Blocks beyond it are not checked.
const maxBitmaps = 8 << 20

// set marks a block and tells whether it was already marked.
func (b *bitmap) set(n int64) bool {
	if n>>6 >= int64(len(b.bits)) {
		return false
	}
	was := b.bits[n>>6]&(1<<(n&63)) != 0
	b.bits[n>>6] |= 1 << (n & 63)
	return was
}
