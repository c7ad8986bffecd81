package web

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/measure/workload/stack"
	"tare/internal/sys/proc"
)

// local is a server that runs in this environment. Of a server of the user's, these are the processes that listen at
// its port; those behind them, such as an interpreter or a database, do not count. Of a stack they all do: tare has
// started them.
type local struct {
	port uint16
	site stack.Site            // nil for a server of the user's
	used map[int]time.Duration // CPU time when last asked, by process
	of   map[string]time.Duration
}

// newLocal returns nil if the server is elsewhere.
func newLocal(at netip.AddrPort, site stack.Site) *local {
	if site.Elsewhere() || !here(at.Addr()) {
		return nil
	}
	return &local{port: at.Port(), site: site}
}

// here tells whether an address is one of this environment: the kernel then takes it as the source, too.
func here(a netip.Addr) bool {
	family, to := sockaddr(netip.AddrPortFrom(a, 9))
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if unix.Connect(fd, to) != nil {
		return false
	}
	switch from, _ := unix.Getsockname(fd); from := from.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(from.Addr) == a
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(from.Addr) == a
	}
	return false
}

// took is the CPU time of the processes since it was last asked; unknown the first time, and if no process is found.
func (l *local) took() (sum time.Duration, known bool) {
	before := l.used
	l.used, l.of = map[int]time.Duration{}, map[string]time.Duration{}
	for pid, name := range l.processes() {
		if cpu, ok := proc.CPUTime(pid); ok {
			l.used[pid] = cpu
			sum += cpu - before[pid]
			l.of[name] += cpu - before[pid]
		}
	}
	return sum, len(before) > 0 && len(l.used) > 0
}

// processes are the server's, with the name of what each is part of, if it is a stack.
func (l *local) processes() map[int]string {
	if l.site != nil {
		return l.site.Processes()
	}
	found := map[int]string{}
	for _, pid := range holders(listening(l.port)) {
		found[pid] = ""
	}
	return found
}

// parts has the use of each server of a stack between the last two times.
func (l *local) parts() string {
	if l.site == nil {
		return ""
	}
	parts := ""
	for _, name := range stack.Servers {
		if used, ok := l.of[name]; ok {
			parts += fmt.Sprintf(", %s %.3f s", name, used.Seconds())
		}
	}
	return strings.TrimPrefix(parts, ", ")
}

// busiest is the number of the processes that can run at the same time.
func (l *local) busiest() int { return max(1, min(len(l.used), processors())) }

// listening are the inodes of the sockets that listen at a port, in the network of the calling thread: /proc/net has
// that of the process's first thread, which may have stayed in another one (sock.In).
func listening(port uint16) map[string]bool {
	found := map[string]bool{}
	suffix := ":" + strings.ToUpper(strconv.FormatUint(uint64(port)+0x10000, 16)[1:])
	for _, name := range []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"} {
		text, _ := os.ReadFile(name)
		for line := range bytes.Lines(text) {
			f := strings.Fields(string(line))
			if len(f) > 9 && f[3] == "0A" && strings.HasSuffix(f[1], suffix) {
				found["socket:["+f[9]+"]"] = true
			}
		}
	}
	return found
}

// holders are the processes that have one of these files open.
func holders(files map[string]bool) (pids []int) {
	if len(files) == 0 {
		return nil
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		names, err := os.ReadDir(dir + "/fd")
		if err != nil {
			continue // ended, or another user's
		}
		for _, name := range names {
			if to, err := os.Readlink(dir + "/fd/" + name.Name()); err == nil && files[to] {
				if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && pid != os.Getpid() {
					pids = append(pids, pid)
				}
				break // one is enough
			}
		}
	}
	return pids
}
