//go:build darwin || freebsd

package sysinfo

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// counter returns the reader of this machine's counters: only the load is known.
func counter() func() counters {
	return func() counters {
		c := unknown()
		// struct loadavg { fixpt_t ldavg[3]; long fscale; }
		if raw, err := unix.SysctlRaw("vm.loadavg"); err == nil && len(raw) >= 24 {
			if scale := binary.LittleEndian.Uint64(raw[16:]); scale > 0 {
				c.load1 = float64(binary.LittleEndian.Uint32(raw)) / float64(scale)
			}
		}
		return c
	}
}
