//go:build !linux && !windows && !darwin && !freebsd

package fileio

import (
	"errors"
	"syscall"
)

// IsFull tells whether an error means that there is no space left.
func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }

// StatVolume is not known here.
func StatVolume(string) (VolumeInfo, error) { return VolumeInfo{}, ErrUnsupported }
