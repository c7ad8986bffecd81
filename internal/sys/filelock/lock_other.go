//go:build !unix && !windows

package filelock

import (
	"errors"
	"os"
)

const (
	noFollow = 0
	noWait   = 0
)

func lock(*os.File) error { return errors.ErrUnsupported }
