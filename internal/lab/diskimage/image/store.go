package image

import (
	"errors"
	"fmt"
	"io"
	"os"
)

const (
	pageBytes = 64 << 10
	pageSets  = 16 // with pageWays: 4 MiB in all, whatever the image says
	// pageWays is how many pages of one set are kept. A look-up in two levels of tables goes to two pages in turn: if
	// one drove out the other, both would be read for every entry.
	pageWays = 4
	// maxTables and maxSteps bound the work that tables can cause. The largest legitimate table is that of a VHDX of
	// 64 TiB (512 MiB) or a VDI of 512 TiB (2 GiB); one that takes more is used twice or leads in circles.
	maxTables = 4 << 30
	maxSteps  = 1 << 30
	maxFiles  = 4096
	// maxProblems bounds the kinds of problems kept for each chain; a kind is counted, not repeated.
	maxProblems = 64
)

// errEndless is the answer to tables that are larger than any image needs.
var errEndless = errors.New("its tables are longer than any image needs, or form a loop")

// file is an open file of an image.
type file struct {
	f    *os.File
	name string
	size int64
	id   int // index in store.files
}

// page is a piece of a file; n bytes of it exist.
type page struct {
	f    *file
	at   int64
	n    int
	data []byte
	used int64 // when it was asked for, in changes of a set's newest page
}

// pageSet holds pages whose numbers have the same remainder.
type pageSet struct {
	ways   [pageWays]page
	newest int // the one that was asked for last
}

// store holds what all images of a chain share: files, the cache of tables, problems.
type store struct {
	files     []*file
	sets      [pageSets]pageSet
	now       int64 // of page.used
	tables    int64 // bytes of tables read
	steps     int64 // entries looked at
	problems  []Problem
	snapshots int                // listed
	kinds     map[problemKey]int // index in problems
	used      []*bitmap          // by file: blocks that a guest offset points to
	entered   []*bitmap          // by file: tables that a walk went through
	room      int64              // words left for bitmaps
	walking   bool
	walks     int // begun or ended
}

type problemKey struct{ code, where string }

func newStore() *store { return &store{kinds: map[problemKey]int{}} }

// open opens a regular file or a block device. Anything else is refused before it is opened: a FIFO would block, and a
// device may do something when it is.
func (s *store) open(name string) (*file, error) {
	if len(s.files) == maxFiles {
		return nil, fmt.Errorf("it is made of more than %d files", maxFiles)
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if m := info.Mode(); !m.IsRegular() && (m&os.ModeDevice == 0 || m&os.ModeCharDevice != 0) {
		return nil, fmt.Errorf("open %s: it is neither a file nor a disk", name)
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

// header reads n bytes, n being a constant of the format and not of the file. What lies past the end reads as zeros,
// and ok says whether all of it was there.
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

// words returns table bytes from off on: at least one entry, at most up to the end of the cached page. The slice is
// good until the next call. off is a multiple of entry, which divides the page size.
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

// page returns the page of a file that begins at base, from the cache or into it.
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

// step counts a look-up and the entries it looked at.
func (s *store) step(n int) error {
	const lookup = 8 // entries could be looked at in the time that the rest of a look-up takes
	if s.steps += int64(n) + lookup; s.steps > maxSteps {
		return errEndless
	}
	return nil
}

// problem notes something wrong; of one kind in one file only the first is kept, with a count.
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

// The kinds of damage that a walk through the tables can meet.
const (
	ProblemOutside = "block-outside" // a table points past the end of the file
	ProblemOverlap = "block-overlap" // two guest blocks lie at one place
	ProblemTable   = "table-damaged" // a table lies outside the file or where none can be
)

// claim notes that a guest block lies at a host offset, and tells of blocks outside the file and of two at one place.
// It does so during a walk only, in which guest offsets rise; what is looked up again is not counted twice.
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
			"blocks lie past the end of the file: it was cut off, or its tables are damaged")
		return
	}
	if u.set(host / block) {
		s.problem(f, ProblemOverlap, guest, "guest blocks share one place in the file: writing one destroys the other")
	}
}

// enter notes, during a walk, that the walk goes into the table number n of a file, with tables of that many bytes. It
// tells whether it was there before: then the table is used twice, and to follow it again would never end.
func (s *store) enter(f *file, n, bytes int64) (again bool) {
	if !s.walking {
		return false
	}
	if s.entered[f.id] == nil {
		s.entered[f.id] = s.bitmap(f.size / bytes)
	}
	return s.entered[f.id].set(n)
}

// visit remembers which entry of a first table a walk is in.
type visit struct {
	walk  int
	entry int64
	again bool
}

// visited tells, during a walk, whether the second table number n, of that many bytes, was gone through for another
// entry of the first table than this one.
func (v *visit) visited(s *store, f *file, entry, n, bytes int64) bool {
	if v.walk != s.walks || v.entry != entry {
		v.walk, v.entry = s.walks, entry
		v.again = s.enter(f, n, bytes)
	}
	return v.again
}

// bitmap makes one for that many blocks, or for as many as there is room left for.
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

// bitmap remembers which blocks of a file are in use. Blocks that do not overlap have different numbers even where they
// do not begin at multiples of their size, as in a VHD.
type bitmap struct {
	bits   []uint64
	walked int64 // guest offsets below were claimed already
}

// maxBitmaps is how many bytes all bitmaps of a chain take at most; blocks beyond what they hold are not checked.
const maxBitmaps = 8 << 20

// set marks a block and tells whether it was marked before.
func (b *bitmap) set(n int64) bool {
	if n>>6 >= int64(len(b.bits)) {
		return false
	}
	was := b.bits[n>>6]&(1<<(n&63)) != 0
	b.bits[n>>6] |= 1 << (n & 63)
	return was
}
