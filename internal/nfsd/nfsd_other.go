//go:build !linux

package nfsd

import "context"

// Server is the kernel's server under way.
type Server struct{}

// Start returns ErrUnsupported.
func Start(context.Context, Export) (*Server, error) { return nil, ErrUnsupported }

// Close does nothing.
func (*Server) Close() error { return nil }
