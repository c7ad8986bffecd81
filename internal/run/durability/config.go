package durability

import (
	"bufio"
	"fmt"
	"strings"
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

// MaxConfig bounds the text of a configuration that is read, in bytes; a longer one is refused.
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

// WriteCache reads /sys/block/DISK/queue/write_cache of a disk whose hypervisor has a volatile cache.
func WriteCache(disk, text string) (found []Finding) {
	if strings.TrimSpace(text) == "write through" {
		found = append(found, Finding{"write-cache-through", layerGuest,
			"the guest's kernel assumes that the disk " + disk + " has no volatile cache, and sends it no flushes",
			"correct only if the disk really has none; otherwise: echo 'write back' > /sys/block/" + disk +
				"/queue/write_cache", true})
	}
	return found
}

// MountOptions reads the options of a mount in the guest, as /proc/self/mountinfo shows them.
func MountOptions(fsType, options string) (found []Finding) {
	for o := range strings.SplitSeq(options, ",") {
		switch o {
		case "nobarrier", "barrier=0":
			found = append(found, Finding{"mount-nobarrier", layerGuest,
				fsType + " is mounted with " + o + ": it flushes no disk", "mount it without " + o, true})
		case "data=writeback":
			found = append(found, Finding{"mount-data-writeback", layerGuest, fsType +
				" may show old contents in a file after a crash (data=writeback)", "mount it with data=ordered", false})
		}
	}
	if fsType == "vboxsf" {
		found = append(found, Finding{"vboxsf-fsync", layerGuest, "fsync on a VirtualBox shared folder does nothing",
			"keep what must survive on the guest's own disk", true})
	}
	return found
}

// Exports reads /etc/exports of an NFS server. Options behind a dash are the default of the clients that follow on the
// line.
func Exports(text string) (found []Finding, err error) {
	if len(text) > MaxConfig {
		return nil, errTooLong(text)
	}
	for l := range lines(strings.ReplaceAll(text, "\\\n", " ")) {
		l, _, _ = strings.Cut(l, "#")
		dir, clients := exported(l)
		byDefault := false
		for _, f := range clients {
			if options, ok := strings.CutPrefix(f, "-"); ok {
				byDefault = async(options, false)
				continue
			}
			_, options, _ := strings.Cut(f, "(")
			if async(strings.TrimSuffix(options, ")"), byDefault) {
				found = append(found, Finding{"nfs-async", layerServer,
					"the NFS server acknowledges writes to " + dir + " before they are on its disk (async)",
					"export it with sync", true})
				break // for other clients it is the same
			}
		}
	}
	return found, nil
}

// exported takes a line of exports apart; a directory with blanks in its name is in quotes.
func exported(line string) (dir string, clients []string) {
	if quoted, ok := strings.CutPrefix(line, `"`); ok {
		dir, line, _ = strings.Cut(quoted, `"`)
		return dir, strings.Fields(line)
	}
	f := strings.Fields(line)
	if len(f) == 0 {
		return "", nil
	}
	return f[0], f[1:]
}

// async is which of sync and async the options end with.
func async(options string, before bool) bool {
	for o := range strings.SplitSeq(options, ",") {
		switch o {
		case "async":
			before = true
		case "sync":
			before = false
		}
	}
	return before
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
			found = append(found, Finding{"smb-strict-sync", layerServer,
				"Samba ignores flushes of clients in [" + section + "] (strict sync = no)", "set strict sync = yes",
				true})
		}
	}
	return found, s.Err()
}

func errTooLong(text string) error {
	return fmt.Errorf("read configuration: %d bytes are above the limit of %d", len(text), MaxConfig)
}
