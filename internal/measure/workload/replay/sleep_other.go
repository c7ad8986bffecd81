//go:build !linux

package replay

import "time"

func sleep(d time.Duration) { time.Sleep(d) }

func wakeExactly() (undo func()) { return func() {} }
