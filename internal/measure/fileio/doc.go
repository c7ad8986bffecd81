// Package fileio has the common parts of workloads on files: handles whose reads and writes are bare system calls,
// content that can be identified and verified, orders that use each record once, files that outlive a trial, and errors
// that say what to do.
//
// It is opinionated. Data is incompressible and no page repeats, because zeros measure the compressor and not the disk.
// Direct I/O that is refused is an error, never a silent change to buffered I/O. Space is checked before anything is
// written. On Linux an operation is one system call and nothing else: no scheduler, no allocation, no clock.
package fileio
