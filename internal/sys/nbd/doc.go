// Package nbd serves one raw file as a network block device on a unix socket, and can pull its plug.
//
// It speaks the fixed newstyle handshake of the NBD protocol with simple replies: read, write, flush, trim, write
// zeroes and forced unit access. Oldstyle, TLS, structured replies and several connections at once are refused.
//
// It has two modes. Passing, every write goes to the file at once and a flush is the file's own: what that costs is
// compared with qemu-nbd's. With a volatile cache, every write that no flush has covered yet can be undone, and CutAt
// does to them what a loss of power may do to a drive's cache: drop them, keep some of them, or tear them between
// sectors. It is opinionated about what a drive may do: a flush covers what was acknowledged before it, forced unit
// access covers its own write, writes to one sector stay in their order, and a sector is never torn.
package nbd
