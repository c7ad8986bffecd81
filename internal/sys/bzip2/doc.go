// Package bzip2 reads and writes bzip2 files, and uses more than one processor to read one.
//
// It is opinionated. Blocks of a bzip2 stream are independent of each other, but the stream does not say where they
// begin. The reader looks for the 48 bits that begin every block at every bit of the input, decodes the parts between
// two such places in parallel, and accepts a place only if the block before it ends there. Data that only looks like a
// beginning costs some time. The checksums of all blocks and streams are verified. Memory is bounded for every input.
// Data after the last stream is an error and not ignored.
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
// The writer makes files for tests and measurements: it compresses as well as bzip2, but slower.
package bzip2

import "strconv"

// Error is the error of Reader for an input that is damaged or not a bzip2 file.
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
