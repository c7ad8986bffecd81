//go:build !linux

package nfsd

import (
	"context"
	"os"
)

// Server is the kernel's server under way.
type Server struct{}

// Start returns ErrUnsupported.
func Start(context.Context, Export) (*Server, error) { return nil, ErrUnsupported }

// Close does nothing.
func (*Server) Close() error { return nil }

// Room is where the kernel has another server than the machine's.
type Room struct{}

// OpenRoom returns ErrUnsupported.
func OpenRoom(RoomOptions) (*Room, error) { return nil, ErrUnsupported }

// Ready returns ErrUnsupported.
func Ready() error { return ErrUnsupported }

// Do returns ErrUnsupported.
func (*Room) Do(func() error) error { return ErrUnsupported }

// Tap returns nil.
func (*Room) Tap() *os.File { return nil }

// Serve returns ErrUnsupported.
func (*Room) Serve(context.Context, Export) error { return ErrUnsupported }

// Kernel returns nothing.
func (*Room) Kernel() string { return "" }

// Close does nothing.
func (*Room) Close() error { return nil }

// Messages returns nothing.
func Messages() []byte { return nil }
