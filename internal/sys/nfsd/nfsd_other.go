//go:build !linux

package nfsd

import (
	"context"
	"os"
)

// NetNS is where the kernel has another server than the machine's.
type NetNS struct{}

// OpenNetNS returns ErrUnsupported.
func OpenNetNS(NetNSOptions) (*NetNS, error) { return nil, ErrUnsupported }

// Ready returns ErrUnsupported.
func Ready() error { return ErrUnsupported }

// Do returns ErrUnsupported.
func (*NetNS) Do(func() error) error { return ErrUnsupported }

// Tap returns nil.
func (*NetNS) Tap() *os.File { return nil }

// Serve returns ErrUnsupported.
func (*NetNS) Serve(context.Context, Export) error { return ErrUnsupported }

// Kernel returns nothing.
func (*NetNS) Kernel() string { return "" }

// Close does nothing.
func (*NetNS) Close() error { return nil }

// Messages returns nothing.
func Messages() []byte { return nil }
