// Package nbd serves one raw file as a network block device on a unix socket, and can pull its plug.
//
// It speaks the fixed newstyle handshake of the NBD protocol with simple replies: read, write, flush, trim, write
// zeroes and forced unit access. Oldstyle, TLS, structured replies and several connections at once are refused.
//
// It has two modes. Without a volatile cache, every write goes to the file at once and a flush is a flush of the file;
// its cost is compared with qemu-nbd's. With a volatile cache, every write that no flush has covered yet can be undone,
// and CutAt treats these writes as a power loss may treat a drive's cache: it drops them, keeps some of them, or tears
// them between sectors. It is opinionated about the rules of a drive: a flush covers the writes acknowledged before it,
// forced unit access covers its own write, writes to one sector keep their order, and a sector is never torn.
package nbd
