package agent

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// self is the worker's executable. The link stays valid even if the file is replaced or removed.
func self() (string, error) {
	if _, err := os.Stat("/proc/self/exe"); err == nil {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

// adoptOrphans makes this process the parent of processes that its workers leave behind, so that endOrphans finds them.
func adoptOrphans() { unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// orphanTime bounds the wait for killed processes, which may hang in the kernel.
const orphanTime = 5 * time.Second

// endOrphans kills and collects every child of this process, and their children, which become this process's. Called
// when no worker is alive, it ends the processes that the last one left running: a server started by a command, a
// shell's background job. Processes for which keep returns true, such as a mount's server, are kept.
func endOrphans(keep func(pid int) bool) {
	for deadline := time.Now().Add(orphanTime); time.Now().Before(deadline); {
		pids := slices.DeleteFunc(children(), keep)
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			unix.Kill(pid, unix.SIGKILL)
		}
		for _, pid := range pids {
			// A process in an uninterruptible wait cannot be collected now, hence the deadline.
			for range 100 {
				if got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil); got == pid || err == unix.ECHILD {
					break
				}
				time.Sleep(time.Millisecond)
			}
		}
	}
}

// children lists this process's children, of all its threads.
func children() (pids []int) {
	if _, err := os.Stat("/proc/thread-self/children"); err != nil {
		return childrenByParent() // the kernel was built without CONFIG_PROC_CHILDREN
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil
	}
	for _, t := range tasks {
		list, err := os.ReadFile("/proc/self/task/" + t.Name() + "/children")
		if err != nil {
			continue // the thread has ended
		}
		for _, s := range strings.Fields(string(list)) {
			if pid, err := strconv.Atoi(s); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// childrenByParent finds this process's children among all processes.
func childrenByParent() (pids []int) {
	self := strconv.Itoa(os.Getpid())
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		// The name in parentheses may contain anything, even parentheses; state and parent follow the last one.
		text := string(stat)
		if f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]); len(f) > 1 && f[1] == self {
			pids = append(pids, pid)
		}
	}
	return pids
}
