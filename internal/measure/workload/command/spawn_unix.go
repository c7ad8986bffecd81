//go:build unix

package command

import (
	"os"
	"syscall"
	"time"
)

// process is a child that has been started and not yet reaped.
type process struct{ pid int }

// usage has the resources that a child used, and its end.
type usage struct {
	user, system time.Duration
	rss          int64  // largest resident memory, bytes
	faults       int64  // page faults
	code         int    // exit code; -1 when a signal ended it
	signal       string // the signal that ended it, else empty
}

// start starts a program in a process group of its own. The syscall package's ForkExec shares memory with the child
// until it has loaded the program (vfork), so the agent's size does not matter.
func start(path string, argv []string, attr *procAttr) (process, error) {
	pid, err := syscall.ForkExec(path, argv, attr)
	return process{pid}, err
}

type procAttr = syscall.ProcAttr

// newAttr makes the attributes of a child. The files must stay open as long as they are used.
func newAttr(dir string, env []string, files [3]*os.File) *procAttr {
	a := &procAttr{Dir: dir, Env: env, Sys: sysAttr()}
	for _, f := range files {
		a.Files = append(a.Files, f.Fd())
	}
	return a
}

// wait reaps the child.
func (p process) wait() (usage, error) {
	var status syscall.WaitStatus
	var ru syscall.Rusage
	for {
		_, err := syscall.Wait4(p.pid, &status, 0, &ru)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return usage{}, os.NewSyscallError("wait4", err)
		}
		break
	}
	u := usage{
		user: time.Duration(ru.Utime.Nano()), system: time.Duration(ru.Stime.Nano()),
		rss: int64(ru.Maxrss) * rssUnit, faults: int64(ru.Minflt) + int64(ru.Majflt), code: status.ExitStatus(),
	}
	if status.Signaled() {
		u.code, u.signal = -1, status.Signal().String()
	}
	return u, nil
}

// terminate asks the child's process group to end.
func (p process) terminate() { _ = syscall.Kill(-p.pid, syscall.SIGTERM) }

// kill ends what is in the child's process group.
func (p process) kill() { _ = syscall.Kill(-p.pid, syscall.SIGKILL) }
