package restore

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/record"
)

// wayInto returns the capabilities that another user needs to reach a directory: none if everybody can pass through all
// directories above it. tare's own directories stay private to its user.
func wayInto(dir string) ([]uintptr, error) {
	open := true
	for d := dir; ; d = filepath.Dir(d) {
		st, err := os.Stat(d)
		if err != nil {
			return nil, err
		}
		open = open && st.Mode().Perm()&1 != 0
		if d == filepath.Dir(d) {
			break
		}
	}
	if open {
		return nil, nil
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&head, &have[0]); err != nil {
		return nil, os.NewSyscallError("capget", err)
	}
	for _, c := range []uint{unix.CAP_DAC_READ_SEARCH, unix.CAP_DAC_OVERRIDE} { // the weaker one first
		if have[0].Permitted>>c&1 != 0 {
			return []uintptr{uintptr(c)}, nil
		}
	}
	return nil, &record.Failure{Kind: "refused",
		Message: fmt.Sprintf("restore: PostgreSQL's user cannot reach %s: use a work directory that others can pass "+
			"through (chmod o+x), or run the agent as a user other than root", dir)}
}

func keepReach(attr *syscall.SysProcAttr, reach []uintptr) { attr.AmbientCaps = reach }

// tick is the unit of a process's times (USER_HZ).
const tick = 10 * time.Millisecond

// cpu is the CPU time of the server: of its first process, of the children that it has reaped, and of those still
// running.
func (d *database) cpu() (time.Duration, error) {
	pid := strconv.Itoa(d.server.Pid())
	const own, reaped = 11, 13 // places of utime and cutime behind the name (proc(5)); the system's times follow
	sum, err := processTime(pid, own, reaped)
	if err != nil {
		return 0, err
	}
	children, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	if err != nil {
		return 0, err
	}
	for _, child := range strings.Fields(string(children)) {
		t, err := processTime(child, own)
		if err != nil {
			continue // it has ended, and will be counted among the reaped ones
		}
		sum += t
	}
	return sum, nil
}

// processTime adds up pairs of times in /proc/PID/stat.
func processTime(pid string, at ...int) (time.Duration, error) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var sum int64
	for _, i := range at {
		for _, j := range []int{i, i + 1} {
			if j >= len(fields) {
				return 0, fmt.Errorf("read the times of process %s: there are only %d fields", pid, len(fields))
			}
			n, err := strconv.ParseInt(fields[j], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read the times of process %s: %w", pid, err)
			}
			sum += n
		}
	}
	return time.Duration(sum) * tick, nil
}
