//go:build !unix

package sql

import (
	"context"
	"errors"
	"fmt"
)

// Socket is not supported on this platform.
type Socket struct{ Stream }

// Dial is not supported on this platform.
func Dial(_ context.Context, _, address string, _ bool) (*Socket, error) {
	return nil, fmt.Errorf("connect to %s: %w: clients of database servers need Unix", address,
		errors.ErrUnsupported)
}
