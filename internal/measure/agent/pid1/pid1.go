// Package pid1 makes the agent the first and only program of a micro-VM: it mounts what a Linux system needs, loads the
// kernel modules that the host put beside it, finds the port for the wire and the scratch disk, serves one controller,
// and powers the machine off; on a serial port it serves one controller after another.
//
// It is opinionated about being small. There is no shell, no supervisor and no reaper: a process that waits for all
// children would take their exit statuses from their parents, and a process that polls would disturb the measurement.
// The agent ends processes that a worker leaves behind. All messages go to the console, which the host keeps.
package pid1

import (
	"fmt"
	"strconv"
	"strings"

	"tare/internal/measure/guestabi"
)

// arguments reads the kernel's command line: words separated by blanks, with double quotes around values that hold
// some. A word without "=" has an empty value; the last of several wins.
func arguments(line string) map[string]string {
	args := map[string]string{}
	for line = strings.TrimLeft(line, " \n"); line != ""; line = strings.TrimLeft(line, " \n") {
		quoted, end := false, len(line)
		for i := range len(line) {
			if line[i] == '"' {
				quoted = !quoted
			} else if !quoted && (line[i] == ' ' || line[i] == '\n') {
				end = i
				break
			}
		}
		key, value, _ := strings.Cut(line[:end], "=")
		if key = strings.Trim(key, `"`); key != "" {
			args[key] = strings.Trim(value, `"`)
		}
		line = line[end:]
	}
	return args
}

// module is a file in the folder of kernel modules.
type module struct {
	file    string
	mayFail bool
}

// moduleList reads the list of modules to load, which names files in one folder.
func moduleList(text string) ([]module, error) {
	var modules []module
	for line := range strings.FieldsSeq(text) {
		file, mayFail := strings.CutPrefix(line, guestabi.MayFail)
		if strings.ContainsRune(file, '/') || !strings.HasSuffix(file, ".ko") {
			return nil, fmt.Errorf("read list of kernel modules: %q is not the file of a module", line)
		}
		modules = append(modules, module{file, mayFail})
	}
	return modules, nil
}

// serialPort reads the name of a serial port with its speed, which may be missing: "ttyS0,115200".
func serialPort(text string) (name string, baud int, err error) {
	name, speed, given := strings.Cut(text, ",")
	if baud = 115200; given {
		baud, err = strconv.Atoi(speed)
	}
	if err != nil || baud <= 0 || name == "" || strings.ContainsRune(name, '/') {
		return "", 0, fmt.Errorf("%s=%q is not NAME,BAUD", guestabi.PortArg, text)
	}
	return name, baud, nil
}

// serials reads the list of disks that get a link.
func serials(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '/' })
}
