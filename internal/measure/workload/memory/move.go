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

// least is the smallest block, in bytes, for a way; smaller blocks use Go's memmove.
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

// word is the way's name in the state of a trial.
func (m move) word() string {
	if m == byString {
		return "rep movsb"
	}
	return string(m)
}

// chosen returns the way for blocks of n bytes, or why the requested one is not available.
func chosen(asked move, n int) (move, error) {
	if asked == byAuto || asked == "" {
		return theRules.moveOf(n), nil
	}
	if why := lacks(asked); why != "" {
		return "", fmt.Errorf("memory.copy: by=%s is not available here: %s; use by=auto: %w",
			asked, why, errors.ErrUnsupported)
	}
	if n < asked.least() {
		return "", fmt.Errorf("memory.copy: by=%s copies at least %s at once, not %s",
			asked, unit.FormatSize(int64(asked.least())), unit.FormatSize(int64(n)))
	}
	return asked, nil
}

// rules are the size limits by which the C library chooses a way.
type rules struct {
	vectors    bool // there are vector registers of 32 bytes
	stringFrom int  // more bytes than these, and
	stringTo   int  // less than these are copied by a string move; 0 if the processor does not report fast string moves
	streamFrom int  // these and more are stored past the cache
}

// leastVectors is the size in bytes from which copyAVX is taken; below there is nothing to gain.
const leastVectors = 2 << 10

// moveOf returns the way in which n bytes are copied.
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
