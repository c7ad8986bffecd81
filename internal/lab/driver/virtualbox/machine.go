package virtualbox

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// machine is a machine of VirtualBox that tare made.
type machine struct {
	*session
	name  string // tare-RUNID-..., so that it is recognised
	iso   string
	disks []*disk
	// machines is the folder for VirtualBox's files of the machine.
	machines string
}

// wireName is the serial line's socket in a session's directory.
const wireName = "wire"

// register makes the machine from its settings. Its command lines are returned as evidence.
func (m *machine) register(ctx context.Context, c *config, major int, shares map[string]string) (argv []string,
	err error) {
	do := func(args ...string) {
		if err == nil {
			_, err = m.run(ctx, args...)
		}
	}
	do("createvm", "--name", m.name, "--ostype", "Linux_64", "--register", "--basefolder", m.inside(m.machines))
	modify := append([]string{"modifyvm", m.name}, c.hardware(major)...)
	modify = append(modify, "--uart1", "0x3f8", "4", "--uart-mode1", "server", m.inside(m.socket()))
	do(modify...)
	do(powerOffInsteadOfReset(m.name)...)
	do("storagectl", m.name, "--name", "ide", "--add", "ide")
	do(append(append([]string{"storageattach", m.name}, place("ide", dvdLUN)...), "--type", "dvddrive", "--medium",
		m.inside(m.iso))...)
	added := []string{"ide"}
	for _, d := range m.disks {
		if !slices.Contains(added, d.controller) {
			added = append(added, d.controller)
			do(append([]string{"storagectl", m.name, "--name", d.controller}, controllerOf(d.controller).add...)...)
		}
	}
	for _, name := range added {
		// One setting for a controller and all its disks.
		do("storagectl", m.name, "--name", name, "--hostiocache", onOff(m.cached(name)))
	}
	for _, d := range m.disks {
		attach := append([]string{"storageattach", m.name}, d.place()...)
		do(append(attach, "--type", "hdd", "--medium", m.inside(d.path))...)
		keys := d.flushKeys()
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			do("setextradata", m.name, k, keys[k])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(shares)) {
		do("sharedfolder", "add", m.name, "--name", name, "--hostpath", m.inside(shares[name]))
	}
	return append([]string{m.manage}, modify...), err
}

// powerOffInsteadOfReset ends a machine whose guest panics; without it the guest would start again and again until the
// deadline.
func powerOffInsteadOfReset(machine string) []string {
	return []string{"setextradata", machine, "VBoxInternal/PowerOffInsteadOfReset", "1"}
}

// cached tells whether a controller's disks use the host's cache.
func (m *machine) cached(controller string) bool {
	return slices.ContainsFunc(m.disks, func(d *disk) bool { return d.controller == controller && d.cache })
}

// hardware is the arguments of modifyvm for the settings.
func (c *config) hardware(major int) []string {
	a := []string{
		"--memory", strconv.FormatInt(c.memory>>20, 10), "--cpus", strconv.Itoa(c.cpus), "--paravirt-provider",
		c.paravirt,
		"--chipset", c.chipset, "--firmware", c.firmware, "--boot1", "dvd", "--boot2", none, "--boot3", none, "--boot4",
		none, "--graphicscontroller", none, "--usb-ohci", "off", "--usb-ehci", "off",
		"--usb-xhci", "off", "--rtc-use-utc", "on", "--ioapic", "on",
	}
	if major >= 7 {
		a = append(a, "--audio-enabled", "off")
	} else {
		a = append(a, "--audio", none)
	}
	if c.nic == none {
		a = append(a, "--nic1", none)
	} else {
		a = append(a, "--nic1", c.nicMode, "--nic-type1", c.nic)
		if c.nicMode == nat && major >= 7 { // before that it always was
			a = append(a, "--nat-localhostreachable1", "on")
		}
	}
	if c.engine != byDefault {
		a = append(a, "--vm-execution-engine", map[string]string{"hwvirt": "hm", interpreter: interpreter}[c.engine])
	}
	for option, value := range map[string]string{"--nested-paging": c.nestedPaging, "--large-pages": c.largePages} {
		if value != byDefault {
			a = append(a, option, value)
		}
	}
	return a
}

// info returns VBoxManage's values of the machine, by name.
func (s *session) info(ctx context.Context, name string) (map[string]string, error) {
	out, err := s.run(ctx, "showvminfo", name, "--machinereadable")
	if err != nil {
		return nil, err
	}
	return parseInfo(string(out)), nil
}

// parseInfo reads lines of name="value" and "name"="value".
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if key = strings.Trim(key, `"`); ok && key != "" {
			info[key] = strings.Trim(value, `"`)
		}
	}
	return info
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}
