//go:build !linux && !windows && !darwin && !freebsd

package fs

import (
	"errors"
	"syscall"
)

func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }

func statVolume(string) (volumeInfo, error) { return volumeInfo{}, ErrUnsupported }
