package machine

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// most bounds what is read of a file of the system's.
const most = 64 << 10

func read(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b := make([]byte, most)
	n, _ := f.Read(b)
	return strings.TrimSpace(string(b[:n]))
}

// systemID is the id that the installation gave the machine.
func systemID() string {
	for _, path := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id"} {
		if s := read(path); len(s) == 32 && strings.Trim(s, "0123456789abcdef") == "" {
			return s
		}
	}
	return ""
}

// builtIn tells a card with a device behind it from a bridge, a tunnel or one end of a pair. A card on USB goes with
// whoever carries it.
func builtIn(name string) bool {
	device, err := filepath.EvalSymlinks("/sys/class/net/" + name + "/device")
	return err == nil && !strings.Contains(device, "/usb")
}

// Facts says what is known beyond what the agent tells, by dotted name; what the system does not tell to this user is
// left out.
func Facts() map[string]string {
	out := map[string]string{}
	add := func(name, value string) {
		if value != "" && len(value) <= 200 {
			out[name] = value
		}
	}
	add("cpu.microcode", microcode(read("/proc/cpuinfo")))
	const dmi = "/sys/class/dmi/id/"
	add("machine.bios_date", read(dmi+"bios_date"))
	add("machine.board", read(dmi+"board_name"))
	if nodes, err := filepath.Glob("/sys/devices/system/node/node[0-9]*"); err == nil && len(nodes) > 0 {
		add("memory.nodes", strconv.Itoa(len(nodes)))
	}
	// Only root may read it.
	if f, err := os.Open("/sys/firmware/dmi/tables/DMI"); err == nil {
		b := make([]byte, mostTables)
		n, _ := f.Read(b)
		f.Close()
		add("memory.modules", modules(b[:n]))
	}
	return out
}

// microcode is the revision of the first processor.
func microcode(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "microcode" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
