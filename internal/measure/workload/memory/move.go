package memory

import (
	"errors"
	"fmt"

	"tare/internal/unit"
)

// move is a way to copy bytes, as the parameter "by" and the state name it.
type move string

const (
	byAuto    move = "auto"           // as the C library does on this processor
	byMemmove move = "memmove"        // Go's, which chooses by itself
	byVectors move = "avx"            // vector registers, see copyAVX
	byString  move = "rep-movsb"      // a string move, see copyString
	byStream  move = "avx-past-cache" // vector registers and stores past the cache, see copyTwoPages
)

// moves are all ways, for the parameter.
var moves = []string{string(byAuto), string(byMemmove), string(byVectors), string(byString), string(byStream)}

// least is the smallest block, in bytes, that a way takes; what is smaller goes by Go's memmove.
func (m move) least() int {
	switch m {
	case byVectors:
		return 128
	case byString:
		return 64
	case byStream:
		return 16 << 10
	}
	return 1
}

// word is the way as the state of a trial says it.
func (m move) word() string {
	if m == byString {
		return "rep movsb"
	}
	return string(m)
}

// chosen returns the way for blocks of n bytes, and why one that was asked for cannot be had.
func chosen(asked move, n int) (move, error) {
	if asked == byAuto || asked == "" {
		return theRules.moveOf(n), nil
	}
	if why := lacks(asked); why != "" {
		return "", fmt.Errorf("memory.copy: by=%s cannot be had here: %s; by=auto takes what there is: %w",
			asked, why, errors.ErrUnsupported)
	}
	if n < asked.least() {
		return "", fmt.Errorf("memory.copy: by=%s copies %s and more at once, and not %s",
			asked, unit.FormatSize(int64(asked.least())), unit.FormatSize(int64(n)))
	}
	return asked, nil
}

// rules tell which way the C library takes for how many bytes.
type rules struct {
	vectors    bool // there are vector registers of 32 bytes
	stringFrom int  // more bytes than these, and
	stringTo   int  // less than these go by a string move; 0 where the processor does not say that it is fast at it
	streamFrom int  // these and more go past the cache
}

// leastVectors is the size in bytes from which copyAVX is taken; below there is nothing to gain.
const leastVectors = 2 << 10

// moveOf tells how n bytes are copied.
func (r rules) moveOf(n int) move {
	switch {
	case n > r.stringFrom && n < r.stringTo:
		return byString
	case r.vectors && n >= r.streamFrom:
		return byStream
	case r.vectors && n >= leastVectors:
		return byVectors
	}
	return byMemmove
}
