package image

import (
	"context"
	"iter"
)

// Walk goes through the whole disk from 0, in runs that are as long as possible: two successive runs differ in state,
// layer or file, or are not adjacent. Its memory does not grow with the disk. It records damage on the way; see
// Problems. The last pair may have an error and no run.
func (c *Chain) Walk(ctx context.Context) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		c.s.walk(true)
		defer c.s.walk(false)
		for _, l := range c.layers {
			l.last = Run{}
		}
		var held Run
		for off, n := int64(0), 0; off < c.Size(); n++ {
			if n%1024 == 0 && ctx.Err() != nil {
				yield(Run{}, ctx.Err())
				return
			}
			r, err := c.At(off)
			if err != nil {
				yield(Run{}, err)
				return
			}
			off += r.Length
			if held.Length > 0 && joins(held, r) {
				held.Length += r.Length
				continue
			}
			if held.Length > 0 && !yield(held, nil) {
				return
			}
			held = r
		}
		if held.Length > 0 {
			yield(held, nil)
		}
	}
}

// joins tells whether b continues a.
func joins(a, b Run) bool {
	if a.State != b.State || a.State != Unallocated && a.Depth != b.Depth {
		return false
	}
	switch a.State {
	case Data:
		return a.File == b.File && a.Host+a.Length == b.Host
	case Compressed:
		return a.File == b.File
	}
	return true
}
