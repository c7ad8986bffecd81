// Package thread gives workloads what the Go scheduler and allocator hide: a team of operating system threads that
// begin together, on processors of their own where that is asked for, and memory of a known size, alignment and page
// size.
//
// It is opinionated: whatever the platform cannot do is an error that wraps ErrUnsupported, never silently something
// else, and what the kernel made of a request (huge pages above all) is read back, not assumed.
package thread

import "errors"

// ErrUnsupported is returned for what the platform cannot do.
var ErrUnsupported = errors.New("not supported on this platform")
