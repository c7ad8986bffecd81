// Package uring keeps many reads and writes of one file in flight through Linux's io_uring, without any library.
//
// It is opinionated: one ring belongs to one thread and serves one file, whose descriptor and buffers are registered
// once, so that an operation costs the kernel neither a look-up nor a pinning of pages. One system call submits
// operations and waits for completions. There is no fallback here: if the kernel has no io_uring, or forbids it, New
// returns an error and the caller decides.
package uring

import "errors"

// ErrUnavailable is wrapped by errors of New if io_uring is missing or forbidden. The error says what to do.
var ErrUnavailable = errors.New("io_uring is not available")
