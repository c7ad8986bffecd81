package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ThreadTimes is the CPU time of each thread of a process. Threads that have ended are not in it.
func ThreadTimes(pid int) (map[Thread]time.Duration, error) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	threads, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	times := map[Thread]time.Duration{}
	for _, t := range threads {
		name, err := os.ReadFile(filepath.Join(dir, t.Name(), "comm"))
		if err != nil {
			continue // it has just ended
		}
		// On the processor in ns, waiting for one in ns, how often.
		text, err := os.ReadFile(filepath.Join(dir, t.Name(), "schedstat"))
		if err != nil {
			continue
		}
		ran, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseInt(ran, 10, 64)
		if err != nil || ns < 0 {
			return nil, fmt.Errorf("read the CPU time of thread %s: %q", t.Name(), text)
		}
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			return nil, err
		}
		times[Thread{id, strings.TrimSpace(string(name))}] = time.Duration(ns)
	}
	return times, nil
}
