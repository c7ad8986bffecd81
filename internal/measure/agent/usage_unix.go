//go:build unix

package agent

import "syscall"

// usage returns the resources that the process has used so far, over all its threads, or those of its children that
// have ended.
func usage(children bool) (u resources) {
	who := syscall.RUSAGE_SELF
	if children {
		who = syscall.RUSAGE_CHILDREN
	}
	var r syscall.Rusage
	if syscall.Getrusage(who, &r) != nil {
		return u
	}
	return resources{
		known: true, counted: true,
		voluntary: int64(r.Nvcsw), involuntary: int64(r.Nivcsw),
		minor: int64(r.Minflt), major: int64(r.Majflt),
		user: r.Utime.Nano(), system: r.Stime.Nano(),
	}
}
