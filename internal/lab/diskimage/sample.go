package diskimage

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"

	"tare/internal/lab/diskimage/image"
)

const (
	sampleBudget = 64 << 20 // most bytes to read
	minUnit      = 4 << 10
	maxUnit      = 1 << 20
)

// sample is a unit of data in a file.
type sample struct {
	file int
	host int64
}

// sampler picks units of data at equal distances during a walk. It does not know the number of units in advance: if it
// has too many, it drops every second one and doubles the distance. So the choice is the same in every run.
type sampler struct {
	unit    int64
	most    int
	every   int64
	seen    int64 // units seen so far
	samples []sample
}

func newSampler(top image.Info) *sampler {
	unit := int64(64 << 10)
	if top.Block > 0 {
		unit = min(max(top.Block, minUnit), maxUnit)
	}
	return &sampler{unit: unit, most: int(min(max(sampleBudget/unit, 64), 512)), every: 1}
}

func (s *sampler) add(r image.Run) {
	if r.State != image.Data {
		return
	}
	units := r.Length / s.unit
	for i := (s.every - s.seen%s.every) % s.every; i < units; i = s.next(i) {
		s.samples = append(s.samples, sample{r.File, r.Host + i*s.unit})
		if len(s.samples) > s.most {
			kept := s.samples[:0]
			for k := 0; k < len(s.samples); k += 2 {
				kept = append(kept, s.samples[k])
			}
			s.samples, s.every = kept, 2*s.every
		}
	}
	s.seen += units
}

// next is the first unit of the run from i on whose number in the walk is a multiple of the distance.
func (s *sampler) next(i int64) int64 {
	n := s.seen + i
	return i + s.every - n%s.every
}

// look reads the picked units. A hole in the host's file need not be read.
func (s *sampler) look(files []*os.File, places []*layout) (Zeros, error) {
	z := Zeros{How: "none", Unit: s.unit}
	if len(s.samples) == 0 {
		return z, nil
	}
	z.How = "sampled"
	buf := make([]byte, s.unit)
	for _, x := range s.samples {
		zero := places[x.file].hole(x.host, s.unit)
		if !zero {
			var err error
			if zero, err = zeroAt(files[x.file], x.host, buf); err != nil {
				return z, err
			}
		}
		if z.Units++; zero {
			z.Zero++
		}
	}
	z.Share = float64(z.Zero) / float64(z.Units)
	z.Low, z.High = wilson(z.Zero, z.Units)
	if s.every == 1 {
		z.Low, z.High = z.Share, z.Share // every unit was read
	}
	return z, nil
}

// zeroAt tells whether a piece of a file is all zeros; bytes past the end count as zeros. It reads both ends first: for
// nearly all data they decide, and two small reads are cheap.
func zeroAt(f *os.File, off int64, buf []byte) (bool, error) {
	n := int64(len(buf))
	pieces := [][2]int64{{0, n}}
	if n > 2*minUnit {
		pieces = [][2]int64{{0, minUnit}, {n - minUnit, n}, {minUnit, n - minUnit}}
	}
	for _, p := range pieces {
		b := buf[p[0]:p[1]]
		got, err := f.ReadAt(b, off+p[0])
		if err != nil && err != io.EOF {
			return false, fmt.Errorf("read %s at %d: %w", f.Name(), off+p[0], err)
		}
		if !allZero(b[:got]) {
			return false, nil
		}
	}
	return true, nil
}

func allZero(b []byte) bool {
	for len(b) >= 32 {
		le := binary.LittleEndian
		if le.Uint64(b)|le.Uint64(b[8:])|le.Uint64(b[16:])|le.Uint64(b[24:]) != 0 {
			return false
		}
		b = b[32:]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// readZeros reads every unit of the data.
func readZeros(ctx context.Context, c *image.Chain, unit int64, places []*layout) (Zeros, error) {
	z := Zeros{How: "read", Unit: unit}
	files, buf := c.Files(), make([]byte, unit)
	var zero, all int64
	for r, err := range c.Walk(ctx) {
		if err != nil {
			return z, err
		}
		if r.State != image.Data {
			continue
		}
		for off := int64(0); off < r.Length; off += unit {
			if err := ctx.Err(); err != nil {
				return z, err
			}
			n := min(unit, r.Length-off)
			is := places[r.File].hole(r.Host+off, n)
			if !is {
				if is, err = zeroAt(files[r.File], r.Host+off, buf[:n]); err != nil {
					return z, err
				}
			}
			z.Units, all = z.Units+1, all+n
			if is {
				z.Zero, zero = z.Zero+1, zero+n
			}
		}
	}
	if all == 0 {
		z.How = "none"
		return z, nil
	}
	z.Share = float64(zero) / float64(all)
	z.Low, z.High = z.Share, z.Share
	return z, nil
}

// wilson returns the 95 % interval of a share (E. B. Wilson, 1927), as for randomly drawn units.
func wilson(k, n int64) (low, high float64) {
	const z = 1.959964
	p, m := float64(k)/float64(n), float64(n)
	centre := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return max(0, centre-half), min(1, centre+half)
}
