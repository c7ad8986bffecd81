package durability

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"tare/internal/sys/mountinfo"
)

// Source is a kind of configuration that can be read.
type Source struct {
	Name string // as a user gives it to --as
	Doc  string // one sentence: what it is, and where it is found
	// looks tells whether a text is likely to be one of these. name is the file's path.
	looks func(name, text string) bool
	read  func(name, text string) ([]Finding, error)
	// holds tells whether a text that a user calls one of these has a line of one; nil where read itself tells
	// (errOther), or looks is no guess.
	holds func(text string) bool
}

// errOther says that a text is none of what it was taken for.
var errOther = errors.New("no line of it is one of these")

// NotOneError says that a file is not of the kind that the user gave, or that there is no such kind.
type NotOneError struct{ err error }

func (e *NotOneError) Error() string { return e.err.Error() }
func (e *NotOneError) Unwrap() error { return e.err }

// Sources lists the kinds of configuration, the most certain to be recognised first.
func Sources() []Source {
	plain := func(read func(string) ([]Finding, error)) func(string, string) ([]Finding, error) {
		return func(_, text string) ([]Finding, error) { return read(text) }
	}
	return []Source{
		{"libvirt", "a domain of libvirt: virsh dumpxml VM",
			func(_, text string) bool { return strings.Contains(text, "<domain") }, plain(Libvirt), isXML},
		{"vbox", "a machine of VirtualBox: its .vbox file",
			func(_, text string) bool { return strings.Contains(text, "<VirtualBox") }, plain(VirtualBoxXML), isXML},
		{"vbox-extradata", "the extra data of a VirtualBox machine: VBoxManage getextradata VM enumerate",
			func(_, text string) bool {
				return strings.Contains(text, "Key: ") && strings.Contains(text, ", Value: ")
			}, plain(VirtualBoxExtraData), nil},
		{"vbox-log", "the log of a VirtualBox machine: VBox.log",
			func(_, text string) bool {
				return strings.Contains(text, "DrvVD") || strings.Contains(text, "VirtualBox VM")
			}, plain(VirtualBoxLog), func(text string) bool { return vboxDriver().MatchString(text) }},
		{"qemu", "the command line of QEMU: /proc/PID/cmdline, or a line of ps",
			func(_, text string) bool { return qemuProgram().MatchString(firstLine(text)) }, plain(qemuText),
			func(string) bool { return true }},
		{"write-cache", "the write cache of a disk as the guest's kernel sees it: /sys/block/DISK/queue/write_cache",
			func(_, text string) bool {
				t := strings.TrimSpace(text)
				return t == "write back" || t == "write through"
			}, func(name, text string) ([]Finding, error) { return WriteCache(diskOf(name), text), nil }, nil},
		{"mountinfo", "the mounts of a process: /proc/self/mountinfo",
			func(_, text string) bool { return strings.Contains(firstLine(text), " - ") }, plain(mountsOf),
			func(text string) bool { return strings.Contains(text, " - ") }},
		{"fstab", "a table of mounts: /etc/fstab, /proc/mounts", looksLikeMounts, plain(fstab), nil},
		{"samba", "the configuration of Samba: smb.conf, or the output of testparm -s",
			func(_, text string) bool { return sambaSection().MatchString(text) }, plain(Samba), nil},
		{"exports", "the exports of an NFS server: /etc/exports, or the output of exportfs -v",
			func(_, text string) bool { return exportLine().MatchString(text) }, plain(Exports),
			func(text string) bool { return anyExport().MatchString(text) }},
	}
}

var (
	qemuProgram = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?:^|[/\s])(?:qemu-system-|qemu-kvm|kvm[\s\x00])`)
	})
	sambaSection = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^\s*\[[^\]\n]+\]\s*$`) })
	anyExport    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^\s*["/]`) })
	exportLine   = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^\s*["/][^\n]*(?:\([a-z_,=0-9]+\)|\s-[a-z_,=0-9]+\s)`)
	})
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
	i := slices.IndexFunc(all, func(s Source) bool {
		return s.Name == kind ||
			kind == "" && s.looks(name, string(text))
	})
	if i < 0 && kind != "" {
		return "", nil, &NotOneError{fmt.Errorf("read %s: unknown kind of configuration %q; choose one of %s", name,
			kind, strings.Join(SourceNames(), ", "))}
	} else if i < 0 {
		return "", nil, fmt.Errorf("read %s: the kind of configuration is not recognised; name it with --as (%s)", name,
			strings.Join(SourceNames(), ", "))
	}
	if kind != "" && !all[i].isOne(name, string(text)) {
		return "", nil, &NotOneError{fmt.Errorf("read %s as %s: %w (%s)", name, kind, errOther, all[i].Doc)}
	}
	found, err := all[i].read(name, string(text))
	if errors.Is(err, errOther) {
		return "", nil, &NotOneError{fmt.Errorf("read %s as %s: %w (%s)", name, all[i].Name, err, all[i].Doc)}
	}
	if err != nil {
		err = fmt.Errorf("read %s as %s: %w", name, all[i].Name, err)
	}
	return all[i].Name, found, err
}

// isOne tells whether there is a line of this kind.
func (s *Source) isOne(name, text string) bool {
	if s.holds != nil {
		return s.holds(text)
	}
	return s.looks(name, text)
}

// isXML leaves the rest to the parser, which reports its faults.
func isXML(text string) bool { return strings.Contains(text, "<") }

func firstLine(text string) string {
	l, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return l
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

func mountsOf(text string) (found []Finding, err error) {
	for _, m := range mountinfo.Parse(text) {
		found = append(found, mounted(m.Point, m.Kind, m.Options+","+m.Super)...)
	}
	return found, nil
}

// looksLikeMounts tells a line of six fields of which the second is a directory.
func looksLikeMounts(_, text string) bool {
	for l := range lines(text) {
		if f := strings.Fields(l); len(f) >= 4 && f[0][0] != '#' &&
			(strings.HasPrefix(f[1], "/") || f[1] == "none" || f[1] == "swap") && !strings.Contains(l, "(") {
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
