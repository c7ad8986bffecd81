// Package bzip2 reads and writes bzip2 files, and uses more than one processor to read one.
//
// It is opinionated. Blocks of a bzip2 stream say nothing of each other, but nothing says either where they begin: the
// reader looks for the 48 bits that every block begins with at every bit of the input, decodes what lies between two
// such places in parallel, and believes a place only when the block before it ends there. Data that looks like a
// beginning and is none costs time and nothing else. Every checksum is verified, of blocks and of streams. Memory is
// bounded whatever the input says of itself. What follows the last stream is an error, not something to pass over in
// silence.
//
// # How a block is decoded
//
//  1. Huffman codes become move-to-front ranks: a table of 10 bits gives symbol and length at once, and the first eight
//     bytes of the list of recent bytes live in a register.
//  2. Ranks become the last column of the sorted rotations of the block.
//  3. One pass over it makes two permutations, from each rotation to the next and to the previous one.
//  4. Both are followed at the same time, the first from the beginning of the text and the second from its end, until
//     they
//     meet. Each step waits for memory, and two waits take as long as one.
//  5. Runs are expanded when they are read, so that a block of nothing but zeros takes no more memory than any other.
//
// The writer makes files for tests and measurements: it compresses as well as the usual program, and slower.
package bzip2

import "strconv"

// Error is what Reader's errors are when the input is damaged or no bzip2 file.
type Error struct {
	Bit  int64 // where, in bits from the beginning of the input
	What string
}

func (e *Error) Error() string {
	return "read bzip2: " + e.What + " (at byte " + strconv.FormatInt(e.Bit/8, 10) + ")"
}

const (
	blockMagic  = 0x314159265359
	streamMagic = 0x177245385090 // ends a stream
	magicBits   = 48

	levelStep  = 100_000
	maxBlock   = 9 * levelStep // bytes before the runs are expanded
	maxSymbols = 258           // 256 ranks, less the first, and two of runs and one that ends the block
	maxTables  = 6
	minTables  = 2
	groupSize  = 50 // symbols that one table is used for
	maxLength  = 20 // bits of a code

	runA, runB = 0, 1

	// maxPacked is more than the longest block can take: a code of 20 bits for each byte, tables and choices of tables.
	maxPacked = (maxBlock+groupSize)*maxLength/8 + 64<<10
)
