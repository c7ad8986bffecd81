package durability

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// qemuNoFlush is the setting in a disk that is given in JSON.
var qemuNoFlush = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`"(?:cache\.)?no-flush":\s*(?:true|"on"|"yes"|"true")`)
})

const qemuSnapshotText = "QEMU writes what the guest changes to a temporary file, whose flushes it ignores and " +
	"which it deletes at the end"

// QEMU reads QEMU's command line.
func QEMU(argv []string) (found []Finding) {
	for i, a := range argv {
		name, ok := strings.CutPrefix(a, "-")
		name = strings.TrimPrefix(name, "-") // QEMU takes both
		switch {
		case ok && name == "snapshot":
			found = append(found, Finding{"qemu-snapshot", layerHypervisor, qemuSnapshotText + " (-snapshot)",
				"leave -snapshot out", true})
		case ok && (name == "drive" || name == "blockdev") && i+1 < len(argv):
			found = append(found, qemuDisk(argv[i+1])...)
		}
	}
	return found
}

// qemuDisk reads the value of -drive or -blockdev.
func qemuDisk(value string) (found []Finding) {
	unsafe := false
	switch option := qemuOptions(value); {
	case strings.HasPrefix(strings.TrimSpace(value), "{"):
		unsafe = qemuNoFlush().MatchString(value)
	case option["media"] == "cdrom" || qemuOn(option["readonly"]) || qemuOn(option["read-only"]): // nothing to flush
	default:
		for key, v := range option {
			unsafe = unsafe || key == "cache" && v == "unsafe" || strings.HasSuffix(key, "cache.no-flush") && qemuOn(v)
		}
		if qemuOn(option["snapshot"]) {
			found = append(found, Finding{"qemu-snapshot", layerHypervisor, qemuSnapshotText + " (snapshot=on)",
				"leave snapshot=on out", true})
		}
	}
	if unsafe {
		found = append(found, Finding{"qemu-cache-unsafe", layerHypervisor,
			"QEMU ignores the guest's flushes of a disk (cache=unsafe, no-flush)", "use cache=none or cache=writeback",
			true})
	}
	return found
}

// qemuOptions takes key=value,key=value apart; a comma in a value is written twice.
func qemuOptions(text string) map[string]string {
	const comma = "\x00"
	all := map[string]string{}
	for o := range strings.SplitSeq(strings.ReplaceAll(text, ",,", comma), ",") {
		key, value, ok := strings.Cut(o, "=")
		if !ok {
			value = "on" // QEMU's short form
		}
		all[key] = strings.ReplaceAll(value, comma, ",")
	}
	return all
}

func qemuOn(value string) bool {
	return slices.Contains([]string{"on", "yes", "true", "y", "1"}, value)
}

// qemuText takes a command line apart: at NULs, as the kernel shows it, else at blanks. A line of ps has no quotes and
// one of a script has them, which cannot be told from each other where a name has an apostrophe: both are read.
func qemuText(text string) ([]Finding, error) {
	if strings.Contains(text, "\x00") {
		argv := strings.Split(text, "\x00")
		if !slices.ContainsFunc(argv, isOption) {
			return nil, errOther
		}
		return QEMU(argv), nil
	}
	text = strings.ReplaceAll(text, "\\\n", " ")
	plain := strings.Fields(text)
	if !slices.ContainsFunc(plain, isOption) {
		return nil, errOther
	}
	found := QEMU(joinValues(plain))
	for _, f := range QEMU(joinValues(unquote(text))) {
		if !slices.Contains(found, f) {
			found = append(found, f)
		}
	}
	return found, nil
}

func isOption(word string) bool { return len(word) > 1 && word[0] == '-' }

// joinValues joins the words up to the next option: names of files have blanks.
func joinValues(words []string) (argv []string) {
	value := false // the last of argv is an option's value
	for _, w := range words {
		if value && !isOption(w) {
			argv[len(argv)-1] += " " + w
			continue
		}
		value = len(argv) > 0 && isOption(argv[len(argv)-1]) && !isOption(w)
		argv = append(argv, w)
	}
	return argv
}

// unquote splits as a shell does.
func unquote(text string) (words []string) {
	var word strings.Builder
	quote, some := rune(0), false
	for _, c := range text {
		switch {
		case quote == 0 && (c == '\'' || c == '"'):
			quote, some = c, true
		case c == quote:
			quote = 0
		case quote == 0 && strings.ContainsRune(" \t\r\n", c):
			if some {
				words = append(words, word.String())
				word.Reset()
			}
			some = false
		default:
			word.WriteRune(c)
			some = true
		}
	}
	if some {
		words = append(words, word.String())
	}
	return words
}

// Libvirt reads a domain's XML.
func Libvirt(text string) (found []Finding, err error) {
	if len(text) > MaxConfig {
		return nil, errTooLong(text)
	}
	d := xml.NewDecoder(strings.NewReader(text))
	var argv []string
	recognised, unsafe, written := false, false, false // the last two are of the disk that is being read
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return found, fmt.Errorf("read libvirt's XML: %w", err)
		}
		switch e := t.(type) {
		case xml.EndElement:
			if e.Name.Local == "disk" && unsafe && written {
				found = append(found, Finding{"libvirt-cache-unsafe", layerHypervisor,
					"libvirt has QEMU ignore the guest's flushes (cache='unsafe')", "use cache='none'", true})
			}
		case xml.StartElement:
			attr := attributes(&e)
			switch e.Name.Local {
			case "domain":
				recognised = true
			case "disk":
				unsafe, written = false, attr["device"] != "cdrom"
			case "readonly":
				written = false
			case "driver":
				unsafe = unsafe || attr["cache"] == "unsafe"
			case "arg": // of qemu:commandline
				argv = append(argv, attr["value"])
			}
		}
	}
	if !recognised {
		return nil, errOther
	}
	return append(found, QEMU(argv)...), nil
}
