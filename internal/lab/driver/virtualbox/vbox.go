package virtualbox

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// maxVbox bounds a machine's settings file, in bytes.
const maxVbox = 16 << 20

// hardDisk is a disk in the registry of a machine's settings file, with the disks that hold its differences.
type hardDisk struct {
	Location string     `xml:"location,attr"`
	Type     string     `xml:"type,attr"`
	Children []hardDisk `xml:"HardDisk"`
}

// vbox has the inputs of a copy of a machine's settings file.
type vbox struct {
	text  []byte
	Disks []hardDisk `xml:"Machine>MediaRegistry>HardDisks>HardDisk"`
}

// readVbox reads a machine's settings file.
func readVbox(name string) (*vbox, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxVbox+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxVbox {
		return nil, fmt.Errorf("%s is larger than %d MiB, too large for a machine's settings", name, maxVbox>>20)
	}
	v, err := parseVbox(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

func parseVbox(text []byte) (*vbox, error) {
	v := &vbox{text: text}
	if err := xml.Unmarshal(text, v); err != nil {
		return nil, err
	}
	if !vboxRE().Match(text) {
		return nil, errors.New("it is not a settings file of a VirtualBox machine")
	}
	return v, nil
}

var (
	vboxRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`<Machine\s`) })
	// placeRE finds the attributes that name files of a machine, which are relative to its settings file.
	placeRE = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(<(?:HardDisk|Image|Machine|Snapshot|NVRAM)\s[^<>]*?\s?(?:location|stateFile|path)=")` +
			`([^"]*)(")`)
	})
)

// places lists the files that the settings name, in their order. folder is that of the settings file.
func (v *vbox) places(folder string) []string {
	var all []string
	for _, m := range placeRE().FindAllSubmatch(v.text, -1) {
		if p := absolute(folder, unescape(m[2])); !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// moved returns the settings with other names for the files.
func (v *vbox) moved(folder string, to func(string) string) []byte {
	return placeRE().ReplaceAllFunc(v.text, func(found []byte) []byte {
		m := placeRE().FindSubmatch(found)
		var b strings.Builder
		b.Write(m[1])
		xml.EscapeText(&b, []byte(to(absolute(folder, unescape(m[2]))))) // a Builder takes everything
		b.Write(m[3])
		return []byte(b.String())
	})
}

// absolute is a path of a settings file. Those of Windows are absolute on Windows only.
func absolute(folder, name string) string {
	if path.IsAbs(name) || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(folder, name)
}

// unescape reads the text of an attribute.
func unescape(text []byte) string {
	var s struct {
		Text string `xml:",chardata"`
	}
	if xml.Unmarshal(slices.Concat([]byte("<x>"), text, []byte("</x>")), &s) != nil {
		return string(text)
	}
	return s.Text
}

// find returns a disk by its file, with the disks that it holds the differences to, the first one last.
func (v *vbox) find(location string) []hardDisk {
	var search func(disks []hardDisk) []hardDisk
	search = func(disks []hardDisk) []hardDisk {
		for _, d := range disks {
			if d.Location == location {
				return []hardDisk{d}
			}
			if chain := search(d.Children); chain != nil {
				return append(chain, d)
			}
		}
		return nil
	}
	return search(v.Disks)
}
