//go:build !linux

package perf

import (
	"context"
	"errors"
)

// Recorder records nothing here.
type Recorder struct{}

var errLinux = errors.New("perf is for Linux only")

// Open says that there is none.
func Open(context.Context) (*Recorder, error) { return nil, errLinux }

// Now is not known.
func Now() int64 { return 0 }

// Start does nothing.
func (*Recorder) Start([]int) error { return errLinux }

// Stop does nothing.
func (*Recorder) Stop(int64, int64) (*Profile, error) { return nil, errLinux }

// Close does nothing.
func (*Recorder) Close() error { return nil }
