package wire

import (
	"encoding/binary"
	"math"
)

// Stamp is the time by this process's monotonic clock as the payload of a frame.
func Stamp() []byte { return StampAt(Now()) }

// StampAt is a time, in ns of the monotonic clock of the process that reads it, as the payload of a frame: a u64,
// little endian.
func StampAt(ns int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(max(0, ns))) }

// Stamped reads a stamp, in ns; false for a payload that is none.
func Stamped(p []byte) (ns int64, ok bool) {
	if len(p) != 8 {
		return 0, false
	}
	v := binary.LittleEndian.Uint64(p)
	return int64(v), v <= math.MaxInt64
}
