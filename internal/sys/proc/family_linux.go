package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Children returns a process's children that run now, from the kernel's lists: there is one for each thread of the
// process. Kernels without CONFIG_PROC_CHILDREN have none.
func Children(pid int) (pids []int) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil
	}
	for _, name := range lists {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for _, word := range bytes.Fields(b) {
			if child, err := strconv.Atoi(string(word)); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// Family returns a process and all its descendants that run now.
func Family(pid int) []int {
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		for _, child := range Children(all[i]) {
			if !slices.Contains(all, child) {
				all = append(all, child)
			}
		}
	}
	return all
}

// Parent is the id of a process's parent; 0 if there is none, or no such process.
func Parent(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	const parent = 1
	n, err := statNumbers(string(text), parent)
	if err != nil {
		return 0
	}
	return int(n[0])
}

// Name is the name of a process or a thread of the kernel; "" if there is none.
func Name(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
