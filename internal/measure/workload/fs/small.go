package fs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/sys/clock"
)

// The phases of a small file's life, in order.
const (
	phaseCreate = iota
	phaseStat
	phaseRead
	phaseRename
	phaseUnlink
	phases
)

var phaseNames = [phases]string{"create", "stat", "read", "rename", "unlink"}

// tree does one operation on one small file, with as little around the system call as the platform allows. Files are
// named by number.
type tree interface {
	do(phase, file int) error
	// enter makes the tree the working directory, so that names are short, until leave is called.
	enter() (leave func(), err error)
	close() error
}

// small is one trial of fs.smallfiles.
type small struct {
	files, size, dirs int
	fsync             bool

	root   string
	tree   tree
	thread fileio.Thread
	page   *payload
	spent  [phases]time.Duration
	rounds []float64 // files per second of each round
}

// Setup makes the directories and the names.
func (s *small) Setup(_ context.Context, b *workload.Bench) error {
	_, on := fileio.Volume(b.Dir)
	b.Note("fs", on)
	if j := fileio.Journal(b.Dir); j != "" {
		b.Note("journal", j)
	}
	root := filepath.Join(b.Dir, "small")
	if err := os.RemoveAll(root); err != nil { // left by a trial that was killed
		return fileio.Explain("remove", root, err)
	}
	if err := fileio.CheckFreeSpace(b.Dir, smallSpace(int64(s.files), int64(s.size), int64(s.dirs)),
		int64(s.files+s.dirs)+1); err != nil {
		return err
	}
	s.root = root
	for d := range s.dirs {
		if err := os.MkdirAll(filepath.Join(root, dirName(d)), 0o700); err != nil {
			return fileio.Explain("create", root, err)
		}
	}
	s.page = newPayload(s.size, b.Seed)
	s.rounds = make([]float64, 0, workload.MaxSamples)
	var err error
	s.tree, err = newTree(root, newNames(s.files, s.dirs), s.page, s.fsync)
	if err != nil {
		return fileio.Explain("open", root, err)
	}
	return nil
}

// Measure takes b.Work files through all phases, in rounds of equal size (to within one file) of at most s.files.
func (s *small) Measure(ctx context.Context, b *workload.Bench) error {
	return s.thread.Run(func(private bool) error {
		b.Note("file_table", map[bool]string{true: "private", false: "shared"}[private])
		leave, err := s.tree.enter()
		if err != nil {
			return fileio.Explain("enter", s.root, err)
		}
		defer leave()
		rounds := (b.Work + int64(s.files) - 1) / int64(s.files)
		for i := range rounds {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := b.Work*(i+1)/rounds - b.Work*i/rounds
			if err := s.round(int(n)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *small) round(n int) error {
	start := clock.Now()
	from := start
	for p := range phases {
		for f := range n {
			if err := s.tree.do(p, f); err != nil {
				return fileio.Explain(fmt.Sprintf("%s file %d below", phaseNames[p], f), s.root, err)
			}
		}
		now := clock.Now()
		s.spent[p] += now.Sub(from)
		from = now
	}
	if len(s.rounds) < cap(s.rounds) {
		s.rounds = append(s.rounds, float64(n)/from.Sub(start).Seconds())
	}
	return nil
}

// Report turns the phases' times into rates and repeats the phases with a few files to compare every byte.
func (s *small) Report(b *workload.Bench) error {
	s.thread.Wait()
	if err := s.verify(); err != nil {
		return &record.Failure{Kind: "measure", Message: fmt.Sprintf("verify small files below %s: %v", s.root, err)}
	}
	b.Check("file_bytes", strconv.Itoa(s.size))
	b.Check("files", strconv.Itoa(s.files))
	b.Check("data", s.page.digest())
	for p, name := range phaseNames {
		if s.spent[p] > 0 {
			b.Report(name+"_per_second", float64(b.Work)/s.spent[p].Seconds())
		}
	}
	b.Report("files_per_second", b.Rate(1))
	if len(s.rounds) > 1 {
		b.Sample("files_per_second", s.rounds)
	}
	return nil
}

// verify checks the phases with the standard library: files appear, have the written content, move, and disappear.
func (s *small) verify() error {
	names := newNames(s.files, s.dirs)
	n := min(s.files, 16)
	for f := range n {
		before, after := filepath.Join(s.root, names.created(f)), filepath.Join(s.root, names.renamed(f))
		for p := range phases {
			if err := s.tree.do(p, f); err != nil {
				return fmt.Errorf("%s file %d: %w", phaseNames[p], f, err)
			}
			switch p {
			case phaseCreate:
				got, err := os.ReadFile(before)
				if err != nil {
					return err
				}
				if string(got) != string(s.page.of(f)) {
					return fmt.Errorf("the content of %s differs from what was written", before)
				}
			case phaseRename:
				if _, err := os.Stat(after); err != nil {
					return err
				}
			case phaseUnlink:
				if _, err := os.Stat(after); !errors.Is(err, os.ErrNotExist) {
					return fmt.Errorf("%s still exists after it was removed (%v)", after, err)
				}
			}
		}
	}
	for d := range min(s.dirs, 16) {
		left, err := os.ReadDir(filepath.Join(s.root, dirName(d)))
		if err != nil {
			return err
		}
		if len(left) > 0 {
			return fmt.Errorf("%d files are left in %s after all files were removed", len(left), dirName(d))
		}
	}
	return nil
}

// Cleanup removes whatever is left.
func (s *small) Cleanup(*workload.Bench) error {
	var err error
	s.thread.Wait()
	if s.tree != nil {
		err = s.tree.close()
		s.tree = nil
	}
	if s.root != "" {
		if rm := os.RemoveAll(s.root); rm != nil {
			err = errors.Join(err, fileio.Explain("remove", s.root, rm))
		}
	}
	return err
}

// payload is the content of small files: the same incompressible bytes after the file's number, so that one comparison
// detects a read of the wrong file.
type payload struct {
	data []byte // of the file written last
	in   []byte // one byte longer, to detect a file that is too long
}

func newPayload(size int, seed uint64) *payload {
	p := &payload{data: fileio.Aligned(size), in: fileio.Aligned(size + 1)}
	fileio.FillRandom(p.data, seed)
	clear(p.in)
	return p
}

// of returns file f's bytes, valid until the next call.
func (p *payload) of(f int) []byte {
	binary.LittleEndian.PutUint64(p.data, uint64(f))
	return p.data
}

// check checks that the n bytes read into p.in are those of file f.
func (p *payload) check(f, n int) error {
	if n != len(p.data) {
		return fmt.Errorf("read %d bytes, but %d were written", n, len(p.data))
	}
	if got := binary.LittleEndian.Uint64(p.in); got != uint64(f) {
		return fmt.Errorf("read the content of file %d instead", got)
	}
	return nil
}

func (p *payload) digest() string { return fileio.Digest(p.of(0)) }

// names holds the path of every file before and after its renaming, relative to the root, each ended by a zero byte as
// system calls want them.
type names struct {
	text   []byte
	stride int
	dirs   int
}

func dirName(d int) string { return fmt.Sprintf("d%05d", d) }

func newNames(files, dirs int) *names {
	n := &names{dirs: dirs, stride: len("d00000/c0000000") + 1}
	n.text = make([]byte, 0, 2*files*n.stride)
	for _, prefix := range []byte{'c', 'r'} {
		for f := range files {
			n.text = fmt.Appendf(n.text, "%s/%c%07d\x00", dirName(f%dirs), prefix, f)
		}
	}
	return n
}

func (n *names) created(f int) string { return n.at(f) }

func (n *names) renamed(f int) string { return n.at(len(n.text)/n.stride/2 + f) }

func (n *names) at(i int) string {
	return string(n.text[i*n.stride : (i+1)*n.stride-1])
}
