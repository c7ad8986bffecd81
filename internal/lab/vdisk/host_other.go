//go:build !linux

package vdisk

import (
	"context"
	"errors"
	"fmt"
	"os"
)

func reserveRange(*os.File, int64, int64) error {
	return fmt.Errorf("%w: only Linux reserves disk space for files", errors.ErrUnsupported)
}

func scatter(context.Context, string, int64) error {
	return fmt.Errorf("%w: only Linux collapses ranges of files", errors.ErrUnsupported)
}

// checkTarget rejects all devices, because on this system nothing says whether one is in use.
func checkTarget(string) (int64, error) {
	return 0, fmt.Errorf("%w: only Linux can overwrite devices, because only its kernel says if they are in use",
		errors.ErrUnsupported)
}

func attachLoop(string, bool) (*os.File, error) {
	return nil, fmt.Errorf("%w: only Linux has loop devices", errors.ErrUnsupported)
}

func loopDirect(*os.File) (bool, error) { return false, errors.ErrUnsupported }
