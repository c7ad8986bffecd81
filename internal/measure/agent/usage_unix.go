//go:build unix

package agent

import "syscall"

// usage returns the resources that the process has used so far, over all its threads.
func usage() (u resources) {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return u
	}
	return resources{
		known:     true,
		voluntary: int64(r.Nvcsw), involuntary: int64(r.Nivcsw),
		minor: int64(r.Minflt), major: int64(r.Majflt),
		user: r.Utime.Nano(), system: r.Stime.Nano(),
	}
}
