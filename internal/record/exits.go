package record

import (
	"strconv"
	"strings"
)

// HostExits is the state of a trial that has the exits of its environment's virtual processors.
const HostExits = "host_exits"

// HostCPU is the state of a trial that has the CPU time of what works for its environment on the controller's machine:
// "CPU 0/TCG 0.020 s, qemu 0.001 s".
const HostCPU = "host_cpu"

// NotMeasured begins a state of a trial that is not known; the reason follows.
const NotMeasured = "not measured: "

// mostExits bounds the kinds of exits of a trial.
const mostExits = 64

// Exits are the exits that a state of that name tells, by kind: "exits 1200, io_exits 300". What is none is left out.
func Exits(state string) map[string]int64 {
	by := map[string]int64{}
	for part := range strings.SplitSeq(state, ", ") {
		name, text, _ := strings.Cut(part, " ")
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && name != "" && len(by) < mostExits {
			by[name] = n
		}
	}
	return by
}
