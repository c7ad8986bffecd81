//go:build !linux

package uring

import "fmt"

// Ring does not exist here: New never returns one.
type Ring struct{}

// New returns an error that wraps ErrUnavailable.
func New(uintptr, int, int) (*Ring, error) {
	return nil, fmt.Errorf("set up io_uring: %w: only Linux has it; use engine=psync with threads, or engine=auto",
		ErrUnavailable)
}

// Describe is never called.
func (*Ring) Describe() string { return "" }

// Enable is never called.
func (*Ring) Enable() error { return ErrUnavailable }

// Buffer is never called.
func (*Ring) Buffer(int) []byte { return nil }

// Read is never called.
func (*Ring) Read(int, int64) {}

// Write is never called.
func (*Ring) Write(int, int64) {}

// InFlight is never called.
func (*Ring) InFlight() int { return 0 }

// Submit is never called.
func (*Ring) Submit(int) error { return ErrUnavailable }

// Next is never called.
func (*Ring) Next() (slot int, res int32, ok bool) { return 0, 0, false }

// Release is never called.
func (*Ring) Release() {}

// Close does nothing.
func (*Ring) Close() error { return nil }
