package stack

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Servers are the names of a site's servers.
var Servers = []string{"varnish", "apache", "nginx", "fpm", "database"}

// Processes are those of the site's servers, each with its server's name. The children of a server count as the server:
// stack.sh starts each in a session of its own.
func (s Site) Processes() map[int]string {
	first := map[int]string{}
	for _, name := range Servers {
		text, _ := os.ReadFile(filepath.Join(s["home"], "pid", name)) // it may just be stopped
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		first[pid] = name
	}
	delete(first, 0)
	found := map[int]string{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if session, err := unix.Getsid(pid); err == nil && first[session] != "" {
				found[pid] = first[session]
			}
		}
	}
	return found
}
