package image

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// maxDescriptor bounds the text of a VMDK; those of VMware have 20 sectors.
const maxDescriptor = 1 << 20

// descriptor is the text of a VMDK.
type descriptor struct {
	kind, version, cid, parent, encrypted string
	extents                               []extentLine
	values                                map[string]string
}

// extentLine is a line such as: RW 4192256 SPARSE "disk-s001.vmdk" or RW 2048 FLAT "disk-flat.vmdk" 0.
type extentLine struct {
	access, kind, file string
	sectors, offset    int64
}

// isDescriptor tells whether a file begins like a VMDK descriptor.
func isDescriptor(head []byte) bool {
	const first = "# disk descriptorfile"
	return len(head) > len(first) && strings.EqualFold(string(head[:len(first)]), first)
}

func readDescriptor(f *file, at, n int64) (descriptor, error) {
	b, _, err := f.header(at, int(min(n, maxDescriptor)))
	if err != nil {
		return descriptor{}, err
	}
	return parseDescriptor(b)
}

// parseDescriptor parses the text up to its first zero.
func parseDescriptor(b []byte) (d descriptor, err error) {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	d.values = map[string]string{}
	number := 0
	for line := range strings.Lines(strings.ToValidUTF8(string(b), "?")) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "RW", "RDONLY", "NOACCESS":
			x, err := parseExtent(word, rest)
			if err != nil {
				return d, fmt.Errorf("line %d of its descriptor: %w", number, err)
			}
			if d.extents = append(d.extents, x); len(d.extents) > maxFiles {
				return d, fmt.Errorf("it has more than %d extents", maxFiles)
			}
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || len(d.values) > 256 {
			continue
		}
		d.values[strings.TrimSpace(key)] = strings.Trim(strings.TrimSpace(value), `"`)
	}
	d.kind, d.version, d.cid = d.values["createType"], d.values["version"], d.values["CID"]
	if up := d.values["parentCID"]; up != "" && !strings.EqualFold(up, "ffffffff") {
		if d.parent = d.values["parentFileNameHint"]; d.parent == "" {
			return d, fmt.Errorf("it has a parent (%s), but does not name its file", up)
		}
	}
	if d.values["encryption.keySafe"] != "" || d.values["encryption.data"] != "" {
		d.encrypted = "VMware"
	}
	return d, nil
}

func parseExtent(access, rest string) (x extentLine, err error) {
	x.access = access
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return x, fmt.Errorf("an extent needs its length and its kind: %q", rest)
	}
	if x.sectors, err = strconv.ParseInt(fields[0], 10, 64); err != nil || x.sectors < 0 || x.sectors > maxSize/512 {
		return x, fmt.Errorf("%q is not an extent's length in sectors", fields[0])
	}
	x.kind = strings.ToUpper(fields[1])
	if x.kind == "ZERO" {
		return x, nil
	}
	_, after, ok := strings.Cut(rest, `"`)
	file, after, closed := strings.Cut(after, `"`)
	if !ok || !closed || file == "" {
		return x, fmt.Errorf("an extent of the kind %s needs the name of its file in quotes: %q", x.kind, rest)
	}
	x.file = file
	if after = strings.TrimSpace(after); after != "" {
		word, _, _ := strings.Cut(after, " ")
		// VMware writes a device's UUID at the end of some lines; only a number is an offset.
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			if n < 0 {
				return x, fmt.Errorf("an extent cannot begin at sector %d", n)
			}
			x.offset = n
		}
	}
	return x, nil
}

func (d descriptor) geometry() *Geometry {
	get := func(k string) int64 {
		n, err := strconv.ParseInt(d.values["ddb.geometry."+k], 10, 64)
		if err != nil || n < 0 {
			return 0
		}
		return n
	}
	g := Geometry{get("cylinders"), get("heads"), get("sectors")}
	if g == (Geometry{}) {
		return nil
	}
	return &g
}
