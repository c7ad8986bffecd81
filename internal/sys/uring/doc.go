// Package uring keeps many reads and writes of one file in flight through Linux's io_uring, without any library.
//
// It is opinionated: one ring belongs to one thread and serves one file, whose descriptor and buffers are registered
// once, so that an operation costs the kernel neither a look-up nor a pinning of pages. Operations are handed over and
// completions waited for in one system call. There is no fallback in here: where the kernel has no io_uring, or its use
// is forbidden, New says so and the caller decides.
package uring

import "errors"

// ErrUnavailable is wrapped by errors of New where io_uring is missing or forbidden. The error says what to do.
var ErrUnavailable = errors.New("io_uring is not available")
