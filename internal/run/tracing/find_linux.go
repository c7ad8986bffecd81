package tracing

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// pause is the time between two looks at the processes of this machine.
const pause = 2 * time.Millisecond

// FindAgent looks for an agent of a run while it does a trial, until stop is closed. It is told by its worker, whose
// arguments have the run's id and which may be in namespaces of its own. It returns the id of the agent in this
// process's namespace, or 0 if none was seen: then it works on another kernel, or the trial was too short.
func FindAgent(runID string, stop <-chan struct{}) int {
	for {
		if pid := agentOf(runID); pid > 0 {
			return pid
		}
		select {
		case <-stop:
			return 0
		case <-time.After(pause):
		}
	}
}

func agentOf(runID string) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			continue
		}
		if words := bytes.Split(line, []byte{0}); len(words) < 3 || string(words[1]) != "worker" ||
			string(words[2]) != "--dir" || !bytes.Contains(line, []byte("tare-"+runID+"-")) {
			continue
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		// The name in parentheses may contain anything; state and parent follow the last one.
		text := string(stat)
		f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		if len(f) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(f[1]); err == nil && parent > 0 {
			return parent
		}
	}
	return 0
}
