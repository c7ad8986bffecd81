package agent

import "syscall"

// usage returns the CPU time that the process has used so far, in steps of the timer's interrupt. Of children that have
// ended nothing is known.
func usage(children bool) (u resources) {
	var made, ended, kernel, user syscall.Filetime
	self, err := syscall.GetCurrentProcess()
	if children || err != nil || syscall.GetProcessTimes(self, &made, &ended, &kernel, &user) != nil {
		return u
	}
	const tick = 100 // ns
	ns := func(f syscall.Filetime) int64 { return (int64(f.HighDateTime)<<32 | int64(f.LowDateTime)) * tick }
	return resources{known: true, user: ns(user), system: ns(kernel)}
}
