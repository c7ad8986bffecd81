//go:build !linux

package vdisk

import (
	"context"
	"errors"
	"fmt"
	"os"
)

func reserveRange(*os.File, int64, int64) error {
	return fmt.Errorf("%w: only Linux reserves room in files here", errors.ErrUnsupported)
}

func scatter(context.Context, string, int64) error {
	return fmt.Errorf("%w: only Linux cuts pieces out of files", errors.ErrUnsupported)
}

// checkTarget refuses all devices: nothing here tells whether one is in use.
func checkTarget(string) (int64, error) {
	return 0, fmt.Errorf("%w: devices can be overwritten on Linux only, where the kernel says whether they are in use",
		errors.ErrUnsupported)
}

func attachLoop(string, bool) (*os.File, error) {
	return nil, fmt.Errorf("%w: there are loop devices on Linux only", errors.ErrUnsupported)
}

func loopDirect(*os.File) (bool, error) { return false, errors.ErrUnsupported }
