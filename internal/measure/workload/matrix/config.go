package matrix

import (
	"fmt"
	"slices"
	"strings"

	"tare/internal/measure/fileio"
	"tare/internal/unit"
)

// Config configures a row.
type Config struct {
	Row
	Ops    []Op // in order, each once
	Direct bool // past the page cache; never for stdio
	Fsync  bool // iozone -e: a flush of the file inside the time of every operation, of reads too
	Close  bool // iozone -c: the close inside the time
	Cold   bool // the file's pages are dropped, with a check, before each read that is not a re-read
	Data   string
	Compat bool // as iozone does it
	Pages  fileio.Pages
	// Samples is the number of samples of each operation; with Compat it is 1.
	Samples int
	Seed    uint64
}

// Params returns the configuration as parameters of fs.matrix, as in a plan and on the command line.
func (c *Config) Params() string {
	var ops []string
	for _, o := range c.Ops {
		ops = append(ops, o.String())
	}
	cache, compat := "warm", "no"
	if c.Cold {
		cache = "cold"
	}
	if c.Compat {
		compat = "iozone"
	}
	return fmt.Sprintf("size=%s,bs=%s,ops=%s,direct=%t,fsync=%t,close=%t,cache=%s,data=%s,compat=%s,samples=%d",
		unit.FormatSize(c.Size), unit.FormatSize(c.Rec), strings.Join(ops, "+"), c.Direct, c.Fsync, c.Close, cache,
		c.Data, compat, c.Samples)
}

// Records returns n, the whole records that fit into the file.
func (c *Config) Records() int64 { return c.Size / c.Rec }

func (c *Config) bytes() int64 { return c.Records() * c.Rec }

// Check returns an error for a wrong configuration.
func (c *Config) Check() error {
	size, rec := unit.FormatSize(c.Size), unit.FormatSize(c.Rec)
	switch {
	case c.Rec < minRecord || c.Rec > maxRecord:
		return fmt.Errorf("bs=%s: a record must have %s to %s",
			rec, unit.FormatSize(minRecord), unit.FormatSize(maxRecord))
	case c.Rec > c.Size:
		return fmt.Errorf("bs=%s is larger than size=%s: use records that fit into the file", rec, size)
	case len(c.Ops) == 0:
		return fmt.Errorf("ops: the list is empty; name operations, or write all")
	case c.Direct && c.Cold:
		return fmt.Errorf("direct=yes bypasses the page cache: leave out cache=cold")
	case c.Compat && c.Cold:
		return fmt.Errorf("compat=iozone reads data that it has just written: leave out cache=cold or compat")
	case c.Compat && c.Samples != 1 && c.Samples != defaultSamples:
		return fmt.Errorf("compat=iozone takes one sample, as iozone does: leave out samples=%d or compat", c.Samples)
	case c.Samples < 1 || c.Samples > maxSamples:
		return fmt.Errorf("samples=%d: must be from 1 to %d", c.Samples, maxSamples)
	}
	return nil
}

// Means returns the error of a row in which no operation is meaningful, else nil.
func (c *Config) Means() error {
	if len(c.meaningful()) > 0 {
		return nil
	}
	return fmt.Errorf("none of the operations is meaningful with size=%s and bs=%s: %s", unit.FormatSize(c.Size),
		unit.FormatSize(c.Rec), c.marked(c.Ops[0]).Text())
}

// marked returns why an operation of this row is not meaningful, as far as this is known before it is tried.
func (c *Config) marked(o Op) Mark {
	switch {
	case c.Compat:
		return ""
	case o == StrideRead && c.Records() < minStrided:
		return NoStride
	case c.Direct && columns[o].stdio:
		return Buffered
	}
	return ""
}

// meaningful returns the operations that are done.
func (c *Config) meaningful() []Op {
	return slices.DeleteFunc(slices.Clone(c.Ops), func(o Op) bool { return c.marked(o) != "" })
}

// Mark is the reason why a cell has no figure.
type Mark string

// The marks.
const (
	NoStride Mark = "s"
	Ticks    Mark = "t"
	NotCold  Mark = "c"
	Refused  Mark = "d"
	Buffered Mark = "b"
)

// Text explains a mark.
func (m Mark) Text() string {
	switch m {
	case NoStride:
		return fmt.Sprintf("with fewer than %d records, a stride read is mostly sequential", minStrided)
	case Ticks:
		return "the time is too short for this system's clock"
	case NotCold:
		return "the file's pages cannot be dropped from the cache here, so there is no cold state"
	case Refused:
		return "direct I/O is refused for this file and record size"
	case Buffered:
		return "stdio cannot use direct I/O: it would measure the cache"
	}
	return ""
}

// leastBytes is the least amount of data of a sample, so that the two clock readings around it (some 50 ns each) stay
// below one per cent at 20 GB/s.
const leastBytes = 256 << 10

// shape is the division of an operation's passes into samples.
type shape struct {
	segments int64 // samples in a pass; 0 when a sample is several passes
	group    int64 // passes in a sample; at least 1
}

// shape depends on sizes only, never on speed, so that the work is the same everywhere. A flush or close at the end of
// a pass belongs to its last segment, which would make that one different, so such passes are not cut.
func (c *Config) shape() shape {
	if c.Compat {
		return shape{1, 1}
	}
	whole := c.Fsync || c.Close
	if size := c.bytes(); size < leastBytes && !whole {
		return shape{0, (leastBytes + size - 1) / size}
	}
	if whole {
		return shape{1, 1}
	}
	return shape{max(1, min(int64(c.Samples), c.Records(), c.bytes()/leastBytes)), 1}
}

// Passes returns how many passes of each operation give the samples that are asked for.
func (c *Config) Passes() int64 {
	s := c.shape()
	switch {
	case c.Compat:
		return 1
	case s.segments == 0:
		return int64(c.Samples) * s.group
	}
	return (int64(c.Samples) + s.segments - 1) / s.segments
}

// space returns the bytes that the row needs below its directory.
func (c *Config) space() int64 { return c.Size + 1<<20 }

// Bounds of the parameters.
const (
	minRecord  = 512
	maxRecord  = 256 << 20
	maxFile    = 1 << 50
	maxSamples = 1000
	sector     = 512
	// defaultSamples is the default of samples.
	defaultSamples = 5
)
