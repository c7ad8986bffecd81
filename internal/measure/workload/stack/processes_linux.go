package stack

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Processes are those of the site's servers, each with its server's name: apache, fpm, nginx, varnish or database. The
// children of a server count as the server.
func (s Site) Processes() map[int]string {
	names := map[int]string{}
	files, _ := filepath.Glob(filepath.Join(s["home"], "pid", "*"))
	for _, file := range files {
		text, _ := os.ReadFile(file) // it may just be stopped
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && !strings.HasSuffix(file, ".new") {
			names[pid] = filepath.Base(file)
		}
	}
	parents := map[int]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		text, _ := os.ReadFile(file)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if parent, ok := parentIn(text); ok {
			parents[pid] = parent
		}
	}
	for pid := range parents {
		for at, steps := pid, 0; at > 1 && steps < maxDepth; at, steps = parents[at], steps+1 {
			if name, ok := names[at]; ok {
				names[pid] = name
				break
			}
		}
	}
	for pid := range names {
		if _, lives := parents[pid]; !lives {
			delete(names, pid)
		}
	}
	return names
}

// maxDepth bounds how far above a process its server is looked for.
const maxDepth = 8

// parentIn is the parent in the text of /proc/PID/stat. The second field is the program's name in parentheses, which
// may contain anything.
func parentIn(text []byte) (int, bool) {
	after := text[bytes.LastIndexByte(text, ')')+1:]
	fields := bytes.Fields(after)
	if len(fields) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return parent, err == nil
}
