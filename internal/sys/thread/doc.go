// Package thread gives workloads control that the Go scheduler and allocator hide: a team of operating system threads
// that begin together, optionally bound to processors, and memory of a known size, alignment and page size.
//
// It is opinionated: if the platform cannot do something, the error wraps ErrUnsupported; there is no silent
// substitute. The result of a request to the kernel, above all for huge pages, is read back, not assumed.
package thread

import "errors"

// ErrUnsupported is the error of an operation that the platform does not have.
var ErrUnsupported = errors.New("not supported on this platform")
