package sysinfo

import "strconv"

// counter returns the reader of this machine's counters.
func counter() func() counters { return tree("/").counter() }

func (t tree) counter() func() counters {
	// The files are listed once, because there are many looks and perhaps many CPUs.
	throttles := append(t.glob("sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count"),
		t.glob("sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/package_throttle_count")...)
	return func() counters {
		c := unknown()
		c.load1, c.running = parseLoad(t.read("proc/loadavg"))
		if c.running > 0 {
			c.running-- // the thread that reads the file
		}
		for i, name := range [...]string{"cpu", "io", "memory"} {
			c.pressure[i] = parsePressure(t.read("proc/pressure/" + name))
		}
		c.steal, c.cpuTotal = parseSteal(t.read("proc/stat"))
		for _, path := range throttles {
			if n, err := strconv.ParseInt(t.line(path), 10, 64); err == nil {
				c.throttle = max(c.throttle, 0) + n
			}
		}
		return c
	}
}
