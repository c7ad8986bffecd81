package durability

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Source is a kind of configuration that can be read.
type Source struct {
	Name string // as a user gives it to --as
	Doc  string // one sentence: what it is, and where it is found
	// looks tells whether a text is likely to be one of these. name is the file's path.
	looks func(name, text string) bool
	read  func(name, text string) ([]Finding, error)
}

// Sources lists the kinds of configuration, the most certain to be recognised first.
func Sources() []Source {
	plain := func(read func(string) ([]Finding, error)) func(string, string) ([]Finding, error) {
		return func(_, text string) ([]Finding, error) { return read(text) }
	}
	return []Source{
		{"libvirt", "a domain of libvirt: virsh dumpxml VM",
			func(_, text string) bool { return strings.Contains(text, "<domain") }, plain(Libvirt)},
		{"vbox", "a machine of VirtualBox: its .vbox file",
			func(_, text string) bool { return strings.Contains(text, "<VirtualBox") }, plain(VirtualBoxXML)},
		{"vbox-extradata", "what VirtualBox was told beside its settings: VBoxManage getextradata VM enumerate",
			func(_, text string) bool {
				return strings.Contains(text, "Key: ") && strings.Contains(text, ", Value: ")
			}, plain(VirtualBoxExtraData)},
		{"vbox-log", "what VirtualBox wrote when it started a machine: VBox.log",
			func(_, text string) bool {
				return strings.Contains(text, "DrvVD") || strings.Contains(text, "VirtualBox VM")
			}, plain(VirtualBoxLog)},
		{"qemu", "the command line of QEMU: /proc/PID/cmdline, or a line of ps",
			func(_, text string) bool { return qemuProgram().MatchString(firstLine(text)) }, plain(qemuText)},
		{"write-cache", "what a guest's kernel takes a disk for: /sys/block/DISK/queue/write_cache",
			func(_, text string) bool {
				t := strings.TrimSpace(text)
				return t == "write back" || t == "write through"
			}, func(name, text string) ([]Finding, error) { return WriteCache(diskOf(name), text), nil }},
		{"mountinfo", "the mounts of a process: /proc/self/mountinfo",
			func(_, text string) bool { return strings.Contains(firstLine(text), " - ") }, plain(mountinfo)},
		{"fstab", "a table of mounts: /etc/fstab, /proc/mounts", looksLikeMounts, plain(fstab)},
		{"samba", "the configuration of Samba: smb.conf, or what testparm -s prints",
			func(_, text string) bool { return sambaSection().MatchString(text) }, plain(Samba)},
		{"exports", "what an NFS server exports: /etc/exports, or what exportfs -v prints",
			func(_, text string) bool { return exportLine().MatchString(text) }, plain(Exports)},
	}
}

var (
	qemuProgram  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:^|[/\s])(?:qemu-system-|qemu-kvm|kvm[\s\x00])`) })
	sambaSection = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^\s*\[[^\]\n]+\]\s*$`) })
	exportLine   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^\s*["/][^\n]*\([a-z_,=0-9]+\)`) })
)

// SourceNames are the names of all sources.
func SourceNames() (names []string) {
	for _, s := range Sources() {
		names = append(names, s.Name)
	}
	return names
}

// Audit reads a configuration. kind is the name of a Source; where it is empty, the text itself must tell. name is the
// file's path. It returns which kind it was.
func Audit(name, kind string, text []byte) (string, []Finding, error) {
	if len(text) > MaxConfig {
		return "", nil, errTooLong(string(text))
	}
	all := Sources()
	i := slices.IndexFunc(all, func(s Source) bool { return s.Name == kind || kind == "" && s.looks(name, string(text)) })
	if i < 0 && kind != "" {
		return "", nil, fmt.Errorf("read %s: there is no kind of configuration %q, only %s", name, kind, strings.Join(SourceNames(), ", "))
	} else if i < 0 {
		return "", nil, fmt.Errorf("read %s: what kind of configuration it is cannot be told; say so with --as (%s)", name, strings.Join(SourceNames(), ", "))
	}
	found, err := all[i].read(name, string(text))
	if err != nil {
		err = fmt.Errorf("read %s as %s: %w", name, all[i].Name, err)
	}
	return all[i].Name, found, err
}

func firstLine(text string) string {
	l, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return l
}

// qemuText takes a command line apart: at NULs, as the kernel shows it, else at blanks, as ps does.
func qemuText(text string) ([]Finding, error) {
	if strings.Contains(text, "\x00") {
		return QEMU(strings.Split(text, "\x00")), nil
	}
	return QEMU(strings.Fields(text)), nil
}

// diskOf is the disk in a path such as /sys/block/vda/queue/write_cache.
func diskOf(name string) string {
	if dir, file := path.Split(path.Clean(strings.ReplaceAll(name, `\`, "/"))); file == "write_cache" {
		if d := path.Base(path.Dir(path.Clean(dir))); d != "." && d != "/" {
			return d
		}
	}
	return "it"
}

func mountinfo(text string) (found []Finding, err error) {
	for l := range lines(text) {
		head, tail, ok := strings.Cut(l, " - ")
		h, t := strings.Fields(head), strings.Fields(tail)
		if !ok || len(h) < 6 || len(t) < 3 {
			continue
		}
		found = append(found, mounted(h[4], t[0], h[5]+","+t[2])...)
	}
	return found, nil
}

// looksLikeMounts tells a line of six fields of which the second is a directory.
func looksLikeMounts(_, text string) bool {
	for l := range lines(text) {
		if f := strings.Fields(l); len(f) >= 4 && f[0][0] != '#' && (strings.HasPrefix(f[1], "/") || f[1] == "none" || f[1] == "swap") && !strings.Contains(l, "(") {
			return true
		}
	}
	return false
}

func fstab(text string) (found []Finding, err error) {
	for l := range lines(text) {
		if f := strings.Fields(l); len(f) >= 4 && f[0][0] != '#' {
			found = append(found, mounted(f[1], f[2], f[3])...)
		}
	}
	return found, nil
}

// mounted is MountOptions with the place in its texts.
func mounted(at, fsType, options string) []Finding {
	found := MountOptions(fsType, options)
	for i := range found {
		found[i].Text = at + ": " + found[i].Text
	}
	return found
}

// flushKey ends the name of the setting by which VirtualBox is told to ignore a disk's flushes, or not to.
const flushKey = "/Config/IgnoreFlush"

func ignoredByVirtualBox(key, value string) []Finding {
	if !strings.HasSuffix(key, flushKey) || strings.TrimSpace(value) != "1" {
		return nil
	}
	return []Finding{{"vbox-flush-ignored", layerHypervisor, "VirtualBox was told to ignore the guest's flushes (" + key + " = 1)",
		"VBoxManage setextradata VM " + key + " 0", true}}
}

// VirtualBoxExtraData reads what `VBoxManage getextradata VM enumerate` prints.
func VirtualBoxExtraData(text string) (found []Finding, err error) {
	if len(text) > MaxConfig {
		return nil, errTooLong(text)
	}
	for l := range lines(text) {
		key, value, ok := strings.Cut(strings.TrimPrefix(l, "Key: "), ", Value: ")
		if ok {
			found = append(found, ignoredByVirtualBox(key, value)...)
		}
	}
	return found, nil
}

// VirtualBoxXML reads a machine's .vbox file. An IDE controller has no asynchronous I/O, and its flushes are ignored unless
// VirtualBox is told not to.
func VirtualBoxXML(text string) (found []Finding, err error) {
	if len(text) > MaxConfig {
		return nil, errTooLong(text)
	}
	d := xml.NewDecoder(bytes.NewReader([]byte(text)))
	ide, disk, kept := false, false, false
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return found, fmt.Errorf("read VirtualBox's XML: %w", err)
		}
		e, ok := t.(xml.StartElement)
		if !ok {
			continue
		}
		attr := map[string]string{}
		for _, a := range e.Attr {
			attr[a.Name.Local] = a.Value
		}
		switch e.Name.Local {
		case "ExtraDataItem":
			found = append(found, ignoredByVirtualBox(attr["name"], attr["value"])...)
			kept = kept || strings.Contains(attr["name"], "/piix3ide/") && strings.HasSuffix(attr["name"], flushKey) && attr["value"] == "0"
		case "StorageController":
			ide = attr["type"] == "PIIX3" || attr["type"] == "PIIX4" || attr["type"] == "ICH6"
		case "AttachedDevice":
			disk = disk || ide && attr["type"] == "HardDisk"
		}
	}
	if disk && !kept {
		found = append(found, Finding{"vbox-sync-flush-ignored", layerHypervisor,
			"a disk is on an IDE controller, whose flushes VirtualBox ignores unless it is told not to",
			"put the disk on a SATA, SCSI or SAS controller, or VBoxManage setextradata VM VBoxInternal/Devices/piix3ide/0/LUN#0/Config/IgnoreFlush 0", true})
	}
	return found, nil
}
