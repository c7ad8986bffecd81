//go:build !linux

package nbd

import (
	"errors"
	"os"
)

func syncData(f *os.File) error { return f.Sync() }

func punchHole(*os.File, int64, int64) error { return errors.ErrUnsupported }
