package container

import (
	"os"
	"strconv"
	"strings"
)

// thisProcess is the owner of what this process makes.
func thisProcess() owner {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	pids, _ := os.Readlink("/proc/self/ns/pid")
	pid := strconv.Itoa(os.Getpid())
	return owner{Machine: strings.TrimSpace(string(boot)) + "/" + pids, PID: pid, Start: startTime(pid)}
}

// alive tells whether the process still runs that began at start. A process id alone may have been given away again.
func alive(pid, start string) bool {
	now := startTime(pid)
	return now != "" && now == start
}

// startTime is when a process began, in clock ticks since boot, as /proc/PID/stat tells it; "" when there is none.
func startTime(pid string) string {
	if n, err := strconv.Atoi(pid); err != nil || n <= 0 {
		return ""
	}
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return ""
	}
	// The second field is the program's name in parentheses and may itself hold spaces and parentheses.
	after := stat[strings.LastIndexByte(string(stat), ')')+1:]
	const startField = 22 - 3 // counted from the third field; proc_pid_stat(5)
	fields := strings.Fields(string(after))
	if len(fields) <= startField || fields[0] == "Z" {
		return ""
	}
	return fields[startField]
}
