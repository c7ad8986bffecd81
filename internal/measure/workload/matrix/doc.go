// Package matrix measures a file with the thirteen operations of iozone (fs.matrix) and the two of dd (fs.dd).
//
// A row of the matrix is a file size and a record size. Its operations, in the order in which a pass does them, where n
// is the number of records and "position" the file's own:
//
//	write       n records into a file that was emptied: blocks are allocated
//	rewrite     the same records again, in place
//	read        n records from the first to the last
//	reread      the same again
//	randread    every record once, in a random order
//	randwrite   every record once, in a random order, in place
//	bkwdread    n records from the last to the first
//	recrewrite  record 0, n times
//	strideread  records 0, 17, 34 ...; at the end of the file it begins again one record further
//	fwrite      n records through a buffer of one record, as fwrite(3) of the GNU C library does it (see stdio)
//	frewrite    the same again
//	fread       n records through that library's fread(3): with a buffer of one record, one read(2) each
//	freread     the same again
//
// The package is opinionated. Data is incompressible and no page repeats. Each timed read is checked by the number in
// its record, and after the timed part the whole file is read again and compared. A file is flushed, untimed, before an
// operation that follows writes, so that no operation pays for another one's dirty pages. Warm and cold are different
// figures: cold means that the file's pages were dropped and that the kernel confirmed it. A figure that would be
// meaningless is marked and not printed: a stride that never leaves record 0, a time too short for the clock, a cache
// that cannot be dropped, refused direct I/O, buffered stdio in a table of direct I/O.
//
// With compat, everything is done as iozone 3.489 does it, by strace: its sequence of calls on the file, its lseek
// before every random read, its permutation, its payload (nearly all zeros), its single sample, and its choice of timed
// flushes. This is for comparison with published figures, not to find out how fast a disk is. The file is opened with
// iozone's flags, so that reads update the access time as they do there; without compat they do not (O_NOATIME),
// because that is a write. Three things differ and cost nothing: O_CLOEXEC is set, the mode is 0600, and the second
// close of a descriptor that is already closed is left out. Times are from a clock of nanoseconds, not of microseconds.
package matrix
