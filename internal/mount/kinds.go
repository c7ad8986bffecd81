package mount

import (
	"context"
	"errors"

	"tare/internal/env"
)

// Kinds lists the mounts that a virtual machine can have.
func Kinds() []env.MountKind { return nil }

func serve(context.Context, Request) (*Served, error) { return nil, errors.New("not yet") }
