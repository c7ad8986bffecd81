package durability

import (
	"bufio"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
)

// Finding is a setting that weakens what a flush promises, as a configuration declares it.
type Finding struct {
	Code   string `json:"code"`  // stable, kebab-case
	Layer  string `json:"layer"` // who acts on the setting
	Text   string `json:"text"`
	Remedy string `json:"remedy"`
	// Ignores says that a flush by a program ends there; else the setting weakens something beside it.
	Ignores bool `json:"ignores"`
}

// MaxConfig bounds the text of a configuration that is read, in bytes; what is longer is refused.
const MaxConfig = 4 << 20

// The layers.
const (
	layerGuest      = "the guest's kernel"
	layerHypervisor = "the hypervisor"
	layerServer     = "the file server"
)

func lines(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for l := range strings.Lines(text) {
			if !yield(strings.TrimSpace(l)) {
				return
			}
		}
	}
}

var (
	qemuUnsafe  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:^|,)cache=unsafe(?:,|$)`) })
	qemuNoFlush = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`cache\.no-flush=on|"no-flush":\s*true`) })
)

// QEMU reads QEMU's command line.
func QEMU(argv []string) (found []Finding) {
	for i, a := range argv {
		if i > 0 && (argv[i-1] == "-drive" || argv[i-1] == "-blockdev") && (qemuUnsafe().MatchString(a) || qemuNoFlush().MatchString(a)) {
			found = append(found, Finding{"qemu-cache-unsafe", layerHypervisor, "QEMU ignores the guest's flushes of a disk (cache=unsafe, no-flush)", "use cache=none or cache=writeback", true})
		}
	}
	return found
}

// VirtualBoxLog reads a VBox.log: the drivers say there what they do with flushes.
func VirtualBoxLog(text string) (found []Finding, err error) {
	if len(text) > MaxConfig {
		return nil, errTooLong(text)
	}
	for l := range lines(text) {
		i := strings.Index(l, "Flushes will be ignored")
		if i < 0 || !strings.Contains(l, "DrvVD") && !strings.Contains(l, "DrvBlock") {
			continue
		}
		if strings.Contains(l[i:], "Async flushes will be passed") {
			found = append(found, Finding{"vbox-sync-flush-ignored", layerHypervisor,
				"VirtualBox ignores flushes of controllers without asynchronous I/O (IDE), and passes those of others",
				"put the disk on a SATA, SCSI or SAS controller, or set IgnoreFlush to 0 (VBoxManage setextradata)", false})
			continue
		}
		found = append(found, Finding{"vbox-flush-ignored", layerHypervisor, "VirtualBox ignores the guest's flushes",
			"set IgnoreFlush to 0 (VBoxManage setextradata VM VBoxInternal/Devices/.../LUN#0/Config/IgnoreFlush 0)", true})
	}
	return found, nil
}

// Libvirt reads a domain's XML.
func Libvirt(text string) (found []Finding, err error) {
	if len(text) > MaxConfig {
		return nil, errTooLong(text)
	}
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return found, fmt.Errorf("read libvirt's XML: %w", err)
		}
		e, ok := t.(xml.StartElement)
		if !ok || e.Name.Local != "driver" {
			continue
		}
		for _, a := range e.Attr {
			if a.Name.Local == "cache" && a.Value == "unsafe" {
				found = append(found, Finding{"libvirt-cache-unsafe", layerHypervisor, "libvirt has QEMU ignore the guest's flushes (cache='unsafe')", "use cache='none'", true})
			}
		}
	}
}

// WriteCache reads /sys/block/DISK/queue/write_cache of a disk whose hypervisor has a volatile cache.
func WriteCache(disk, text string) (found []Finding) {
	if strings.TrimSpace(text) == "write through" {
		found = append(found, Finding{"write-cache-through", layerGuest,
			"the guest's kernel takes the disk " + disk + " for one without a volatile cache and sends it no flushes",
			"right only where the disk really has none; else: echo 'write back' > /sys/block/" + disk + "/queue/write_cache", true})
	}
	return found
}

// MountOptions reads the options of a mount in the guest, as /proc/self/mountinfo shows them.
func MountOptions(fsType, options string) (found []Finding) {
	for o := range strings.SplitSeq(options, ",") {
		switch o {
		case "nobarrier", "barrier=0":
			found = append(found, Finding{"mount-nobarrier", layerGuest, fsType + " is mounted with " + o + ": it flushes no disk", "mount it without " + o, true})
		case "data=writeback":
			found = append(found, Finding{"mount-data-writeback", layerGuest, fsType + " may show old contents in a file after a crash (data=writeback)", "mount it with data=ordered", false})
		}
	}
	if fsType == "vboxsf" {
		found = append(found, Finding{"vboxsf-fsync", layerGuest, "fsync on a VirtualBox shared folder does nothing", "keep what must survive on the guest's own disk", true})
	}
	return found
}

// Exports reads /etc/exports of an NFS server.
func Exports(text string) (found []Finding, err error) {
	if len(text) > MaxConfig {
		return nil, errTooLong(text)
	}
	for l := range lines(strings.ReplaceAll(text, "\\\n", " ")) {
		l, _, _ = strings.Cut(l, "#")
		fields := strings.Fields(l)
		for i, f := range fields {
			_, options, ok := strings.Cut(f, "(")
			if i == 0 || !ok {
				continue
			}
			for o := range strings.SplitSeq(strings.TrimSuffix(options, ")"), ",") {
				if o == "async" {
					found = append(found, Finding{"nfs-async", layerServer, "the NFS server acknowledges writes to " + fields[0] + " before they are on its disk (async)", "export it with sync", true})
				}
			}
		}
	}
	return found, nil
}

// Samba reads an smb.conf. Since Samba 4.7 flushes are passed on unless it is told otherwise.
func Samba(text string) (found []Finding, err error) {
	if len(text) > MaxConfig {
		return nil, errTooLong(text)
	}
	section := "global"
	s := bufio.NewScanner(strings.NewReader(text))
	s.Buffer(nil, MaxConfig+1)
	for s.Scan() {
		l := strings.TrimSpace(s.Text())
		if strings.HasPrefix(l, "#") || strings.HasPrefix(l, ";") {
			continue
		}
		if name, ok := strings.CutPrefix(l, "["); ok {
			section, _, _ = strings.Cut(name, "]")
			continue
		}
		key, value, ok := strings.Cut(l, "=")
		key = strings.ToLower(strings.Join(strings.Fields(key), "")) // Samba ignores case and blanks in names
		switch value = strings.ToLower(strings.TrimSpace(value)); {
		case ok && key == "strictsync" && (value == "no" || value == "false" || value == "0" || value == "off"):
			found = append(found, Finding{"smb-strict-sync", layerServer, "Samba ignores flushes of clients in [" + section + "] (strict sync = no)", "set strict sync = yes", true})
		}
	}
	return found, s.Err()
}

func errTooLong(text string) error {
	return fmt.Errorf("read configuration: %d bytes are above the limit of %d", len(text), MaxConfig)
}
