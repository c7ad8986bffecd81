package leftover

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// startTime returns the boot id and the start time in clock ticks since that boot (field 22 of /proc/PID/stat). It
// returns fs.ErrNotExist for a process that does not exist.
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, syscall.ESRCH) {
		return "", fs.ErrNotExist // it ended between open and read
	}
	if err != nil {
		return "", err
	}
	ticks, err := parseStat(stat)
	if err != nil {
		return "", fmt.Errorf("read /proc/%d/stat: %w", pid, err)
	}
	boot := bootID()
	if boot == "" {
		return ticks, nil // some sandboxes hide the boot id; the ticks alone are nearly as good
	}
	return boot + "/" + ticks, nil
}

// bootID is a word that no other boot of any machine has; "" if it is not known.
func bootID() string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(boot))
}

// machine tells this machine from others. Nodes that were made from one image may have one id, so that the host name
// belongs to it.
func machine() string {
	id, _ := os.ReadFile("/etc/machine-id")
	name, _ := os.Hostname()
	return strings.TrimSpace(string(id)) + " " + name
}

// pidSpace is the number of this process's PID namespace; "" if it is not known.
func pidSpace() string {
	link, _ := os.Readlink("/proc/self/ns/pid")
	return strings.Trim(link, "pid:[]")
}

// parseStat finds the start time. The command's name, in parentheses, may contain anything, parentheses and spaces
// included.
func parseStat(stat []byte) (string, error) {
	_, rest, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	fields := bytes.Fields(rest)
	if !ok || len(fields) < 20 {
		return "", errors.New("too few fields")
	}
	if fields[0][0] == 'Z' || fields[0][0] == 'X' {
		return "", fs.ErrNotExist // a zombie owns nothing
	}
	return string(fields[19]), nil
}
