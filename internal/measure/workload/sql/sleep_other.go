//go:build !linux

package sql

import "time"

func sleep(d time.Duration) { time.Sleep(d) }

func wakeExactly() (undo func()) { return func() {} }
