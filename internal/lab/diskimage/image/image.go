// Package image reads virtual disk images: raw, VDI, VMDK, VHD, VHDX, qcow2 and Parallels.
//
// It is opinionated in three ways. It only reads, and no more than tables and the requested blocks. A header is
// untrusted input: no size in it decides how much memory is used or how long a loop runs, and tables are read through a
// cache of fixed size. And damage is reported, not fatal: everything that can still be read is returned, with a list of
// problems.
//
// Every format answers one question: which run of bytes starts at a guest offset, and where does it lie? Chains of
// images, maps and reading are built on that answer.
package image

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// State says how a run of the guest's disk is stored.
type State uint8

// The states of a run.
const (
	Unallocated State = iota // not stored in any layer; reads as zeros
	Zero                     // the image says that it reads as zeros
	Data                     // stored as it is, at Run.Host
	Compressed               // stored compressed, from Run.Host on
)

var stateNames = [...]string{"unallocated", "zero", "data", "compressed"}

func (s State) String() string { return stateNames[s] }

// Run is a range of the guest's disk that is stored in one piece.
type Run struct {
	Offset, Length int64 // bytes of the guest's disk
	State          State
	Depth          int   // the layer that stores it: 0 is the image itself, 1 its parent
	File           int   // index in Chain.Files of the file with the data; only for data and compressed
	Host           int64 // offset in that file; only for data and compressed
}

// Snapshot is a snapshot inside an image file.
type Snapshot struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Seconds int64  `json:"seconds"` // when it was taken, since 1970
	Bytes   int64  `json:"vm_state_bytes"`
}

// Geometry is the number of cylinders, heads and sectors in the image's header.
type Geometry struct {
	Cylinders int64 `json:"cylinders"`
	Heads     int64 `json:"heads"`
	Sectors   int64 `json:"sectors"`
}

// Problem is an error or a remarkable fact about an image.
type Problem struct {
	Code  string `json:"code"`
	Text  string `json:"text"`
	Count int64  `json:"count"` // number of occurrences
	Guest int64  `json:"guest"` // guest offset of the first one; -1 if it has none
}

// Info describes an image file according to its header. Sizes and offsets are bytes.
type Info struct {
	Path      string `json:"path"`
	Format    string `json:"format"`  // "raw", "vdi", "vmdk", "vhd", "vhdx", "qcow2", "parallels"
	Variant   string `json:"variant"` // "dynamic", "monolithicSparse"
	Version   string `json:"version"`
	Creator   string `json:"creator"`
	Size      int64  `json:"virtual_bytes"`
	FileBytes int64  `json:"file_bytes"` // length of all its files
	// Block is the unit of allocation; 0 if everything is allocated. SubBlock is the smaller unit within a block that
	// can be allocated on its own; 0 if there is none.
	Block    int64 `json:"block_bytes"`
	SubBlock int64 `json:"sub_block_bytes"`
	// DataOffset is where the first block of data lies or will lie; -1 if the format does not fix it.
	DataOffset int64 `json:"data_offset"`
	// Stride is the distance between blocks that are allocated one after the other; 0 if the format does not fix it.
	Stride int64 `json:"stride_bytes"`
	// Updates is the number of table updates, besides the data, when the format allocates a block.
	Updates   int        `json:"metadata_updates"`
	Fills     bool       `json:"fills_blocks"` // a new block is written as a whole, even for a small write
	CHS       *Geometry  `json:"chs,omitempty"`
	Encrypted string     `json:"encrypted"` // the method, "" for none
	Dirty     string     `json:"dirty"`     // why the image is not cleanly closed; "" if it is
	Parent    string     `json:"parent"`    // the parent's name in the image
	UUID      string     `json:"uuid"`
	Snapshots []Snapshot `json:"snapshots"`
}

// mapper finds the run at a guest offset. The run starts at that offset, has at least one byte, and may end before
// adjacent data in the file does: the caller joins runs. Unallocated means that the parent decides.
type mapper interface {
	at(off int64) (Run, error)
}

// expander is a mapper with compressed blocks. expand returns the decompressed block that contains the guest offset,
// and the guest offset of the block's begin.
type expander interface {
	expand(off int64) (block []byte, start int64, err error)
}

// layer is one image of a chain.
type layer struct {
	info Info
	m    mapper
	// last is the last answer. While a parent is walked, a long run without data in a child is requested again and
	// again.
	last Run
}

func (l *layer) at(off int64) (Run, error) {
	if r := l.last; r.Length > 0 && off >= r.Offset && off < r.Offset+r.Length {
		d := off - r.Offset
		r.Offset, r.Length = off, r.Length-d
		if r.State == Data {
			r.Host += d
		}
		return r, nil
	}
	r, err := l.m.at(off)
	if err != nil {
		return Run{}, err
	}
	r.Length = min(r.Length, l.info.Size-off)
	l.last = r
	return r, nil
}

// maxDepth bounds a chain of images.
const maxDepth = 256

// maxSize is the largest virtual disk that is read, in bytes; sums of larger sizes could overflow.
const maxSize = 1 << 60

// Chain is an image with its parents. It is not safe for concurrent use.
type Chain struct {
	layers []*layer
	s      *store
	block  []byte // the last compressed block that was expanded
	start  int64
	depth  int
}

// Open opens an image, its extent files and its parents for reading. It opens only regular files and block devices. If
// any image of the chain cannot be opened, Open fails and says what is wrong.
func Open(path string) (_ *Chain, err error) {
	if path == "" {
		return nil, errors.New("open image: the name is empty")
	}
	s := newStore()
	c := &Chain{s: s}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open image %s: %w", path, err), s.close())
		}
	}()
	name, format := path, ""
	for depth := 0; name != ""; depth++ {
		if depth == maxDepth {
			return nil, fmt.Errorf("the chain of parents has more than %d images", maxDepth)
		}
		f, err := s.open(name)
		if err != nil {
			return nil, chainError(depth, name, err)
		}
		for _, l := range c.layers {
			if same(f, s.byName(l.info.Path)) {
				return nil, fmt.Errorf("the chain of parents loops: %s appears again as parent number %d", l.info.Path,
					depth)
			}
		}
		l, next, err := s.parse(f, format)
		if err != nil {
			return nil, chainError(depth, name, err)
		}
		if l.info.Size < 0 || l.info.Size > maxSize {
			return nil, chainError(depth, name, fmt.Errorf("its header claims %d bytes, more than any disk has",
				uint64(l.info.Size)))
		}
		c.layers = append(c.layers, l)
		name, format = next.path, next.format
	}
	return c, nil
}

func chainError(depth int, name string, err error) error {
	if depth == 0 {
		return err
	}
	return fmt.Errorf("parent number %d, %s: %w", depth, name, err)
}

func same(a, b *file) bool {
	if a == nil || b == nil {
		return false
	}
	x, err := a.f.Stat()
	if err != nil {
		return false
	}
	y, err := b.f.Stat()
	return err == nil && os.SameFile(x, y)
}

// parent names the image below another one.
type parent struct{ path, format string }

// relative is a parent's path relative to the image that names it.
func relative(image, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(image), name)
}

// Close closes all files.
func (c *Chain) Close() error { return c.s.close() }

// Size is the virtual disk's length in bytes.
func (c *Chain) Size() int64 {
	if len(c.layers) == 0 {
		return 0
	}
	return c.layers[0].info.Size
}

// Layers describes the images, the opened one first, then its parents.
func (c *Chain) Layers() []Info {
	out := make([]Info, len(c.layers))
	for i, l := range c.layers {
		out[i] = l.info
	}
	return out
}

// Files are all open files; Run.File is an index of them. They belong to the chain.
func (c *Chain) Files() []*os.File {
	out := make([]*os.File, len(c.s.files))
	for i, f := range c.s.files {
		out[i] = f.f
	}
	return out
}

// Problems are the problems found so far. After a complete walk all are known.
func (c *Chain) Problems() []Problem { return c.s.problems }

// At returns the run that starts at a guest offset, from 0 to Size-1. It may end before the data that is stored in one
// piece.
func (c *Chain) At(off int64) (Run, error) {
	if off < 0 || off >= c.Size() {
		return Run{}, fmt.Errorf("look up %d: the disk has %d bytes", off, c.Size())
	}
	length := c.Size() - off
	if len(c.layers) == 1 { // no request is repeated, so no memory of the last one is needed
		r, err := c.layers[0].m.at(off)
		if err != nil {
			return Run{}, fmt.Errorf("look up %d in %s: %w", off, c.layers[0].info.Path, err)
		}
		r.Length = min(r.Length, length)
		return r, nil
	}
	for depth, l := range c.layers {
		if off >= l.info.Size { // a parent may be smaller than its child
			return Run{Offset: off, Length: length, Depth: depth}, nil
		}
		r, err := l.at(off)
		if err != nil {
			return Run{}, fmt.Errorf("look up %d in %s: %w", off, l.info.Path, err)
		}
		length = min(length, r.Length)
		if r.State != Unallocated || depth == len(c.layers)-1 {
			r.Length, r.Depth = length, depth
			return r, nil
		}
	}
	return Run{}, errors.New("look up: the chain is empty")
}

// ReadAt reads the guest's disk. At its end it returns io.EOF.
func (c *Chain) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("read at %d: offsets begin at 0", off)
	}
	for n < len(p) {
		if off+int64(n) >= c.Size() {
			return n, io.EOF
		}
		r, err := c.At(off + int64(n))
		if err != nil {
			return n, err
		}
		part := p[n:min(int64(len(p)), int64(n)+r.Length)]
		if err := c.read(part, r); err != nil {
			return n, fmt.Errorf("read %s at %d: %w", c.layers[r.Depth].info.Path, r.Offset, err)
		}
		n += len(part)
	}
	return n, nil
}

// read fills p from the beginning of a run.
func (c *Chain) read(p []byte, r Run) error {
	switch r.State {
	case Data:
		n, err := c.s.files[r.File].f.ReadAt(p, r.Host)
		if err == io.EOF { // the last block of a file may be truncated if only zeros follow
			clear(p[n:])
			return nil
		}
		return err
	case Compressed:
		for done := 0; done < len(p); {
			at := r.Offset + int64(done)
			if c.block == nil || c.depth != r.Depth || at < c.start || at >= c.start+int64(len(c.block)) {
				x, ok := c.layers[r.Depth].m.(expander)
				if !ok {
					return errors.New("compressed blocks of this format cannot be read")
				}
				block, start, err := x.expand(at)
				if err == nil && (at < start || at >= start+int64(len(block))) {
					err = errors.New("the compressed block is too short")
				}
				if err != nil {
					c.block = nil
					return err
				}
				c.block, c.start, c.depth = block, start, r.Depth
			}
			done += copy(p[done:], c.block[at-c.start:])
		}
		return nil
	default:
		clear(p)
		return nil
	}
}
