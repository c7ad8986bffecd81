package thread

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pinMember binds the calling thread, member i of n, to one usable processor and returns its number.
func pinMember(i, n int) (int, error) {
	usable, err := UsableCPUs()
	if err != nil {
		return 0, err
	}
	cpu := usable[i%len(usable)]
	if n == 1 {
		if here, ok := currentCPU(); ok {
			cpu = here
		}
	}
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return 0, fmt.Errorf("bind thread to processor %d: %w", cpu, err)
	}
	return cpu, nil
}

// UsableCPUs lists the processors that the calling thread may run on, in ascending order, at least one.
func UsableCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read processor affinity: %w", err)
	}
	var cpus []int
	for cpu := range len(set) * int(unsafe.Sizeof(set[0])) * 8 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	if len(cpus) == 0 {
		return nil, fmt.Errorf("read processor affinity: no processor is usable (the system reports %d)",
			runtime.NumCPU())
	}
	return cpus, nil
}

// currentCPU returns the processor on which the calling thread runs now.
func currentCPU() (int, bool) {
	var cpu uint32
	_, _, errno := syscall.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0)
	return int(cpu), errno == 0
}
