package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
)

// Bounds of a samples frame.
const (
	MaxSampleName = 128  // bytes
	MaxSamples    = 4096 // values; workload.MaxSamples promises the same
)

// PackSamples makes the payload of a samples frame: the name's length as u16, the name, and the values as float64, all
// little endian. Values must be finite, because a bundle's JSON can hold nothing else.
func PackSamples(name string, values []float64) ([]byte, error) {
	if len(name) == 0 || len(name) > MaxSampleName || !utf8.ValidString(name) {
		return nil, fmt.Errorf("pack samples: name %.40q must be 1 to %d bytes of UTF-8", name, MaxSampleName)
	}
	if len(values) > MaxSamples {
		return nil, fmt.Errorf("pack samples %s: %d values are above the limit of %d", name, len(values), MaxSamples)
	}
	p := make([]byte, 0, 2+len(name)+8*len(values))
	p = binary.LittleEndian.AppendUint16(p, uint16(len(name)))
	p = append(p, name...)
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("pack samples %s: value %d is %v", name, i, v)
		}
		p = binary.LittleEndian.AppendUint64(p, math.Float64bits(v))
	}
	return p, nil
}

// UnpackSamples reads what PackSamples made and refuses everything else.
func UnpackSamples(p []byte) (name string, values []float64, err error) {
	if len(p) < 2 {
		return "", nil, fmt.Errorf("unpack samples: %d bytes are too few", len(p))
	}
	n := int(binary.LittleEndian.Uint16(p))
	rest := p[2:]
	if n == 0 || n > MaxSampleName || n > len(rest) || !utf8.Valid(rest[:n]) {
		return "", nil, fmt.Errorf("unpack samples: bad name of %d bytes", n)
	}
	name, rest = string(rest[:n]), rest[n:]
	if len(rest)%8 != 0 || len(rest)/8 > MaxSamples {
		return "", nil, fmt.Errorf("unpack samples %q: %d bytes are not up to %d values", name, len(rest), MaxSamples)
	}
	values = make([]float64, len(rest)/8)
	for i := range values {
		values[i] = math.Float64frombits(binary.LittleEndian.Uint64(rest[8*i:]))
		if math.IsNaN(values[i]) || math.IsInf(values[i], 0) {
			return "", nil, fmt.Errorf("unpack samples %q: value %d is not finite", name, i)
		}
	}
	return name, values, nil
}

// Thin returns at most MaxSamples of the values, evenly spaced, the first among them.
func Thin(values []float64) []float64 {
	if len(values) <= MaxSamples {
		return values
	}
	out := make([]float64, MaxSamples)
	for i := range out {
		out[i] = values[i*len(values)/MaxSamples]
	}
	return out
}
