package agent

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tare/internal/measure/guestabi"
)

// Device returns the device of a source: of guestabi.ByLabel and a label the disk with an ext4 of that label, of all
// else the source itself. A hypervisor whose disks have no serial number of the host's choice leaves no other way.
func Device(source string) (string, error) {
	label, ok := strings.CutPrefix(source, guestabi.ByLabel)
	if !ok {
		return source, nil
	}
	disks, _ := filepath.Glob("/sys/block/*")
	for _, d := range disks {
		dev := filepath.Join("/dev", filepath.Base(d))
		if labelOf(dev) == label {
			return dev, nil
		}
	}
	return "", fmt.Errorf("%s %s", guestabi.NoDisk, label)
}

// deviceTime bounds the time until the kernel finds a disk: those of SCSI controllers it looks for beside all else.
const deviceTime = 30 * time.Second

// awaitDevice is Device of a disk that may still be on its way.
func awaitDevice(source string) (string, error) {
	for end := time.Now().Add(deviceTime); ; time.Sleep(50 * time.Millisecond) {
		dev, err := Device(source)
		if err == nil || time.Now().After(end) {
			return dev, err
		}
	}
}

// labelOf reads the label of the ext4 on a device; "" if there is none.
func labelOf(dev string) string {
	f, err := os.Open(dev)
	if err != nil {
		return ""
	}
	defer f.Close()
	// See the kernel's Documentation/filesystems/ext4/super.rst.
	const super, magicAt, magic, labelAt, labelSize = 1024, 0x38, 0xef53, 0x78, 16
	var b [labelAt + labelSize]byte
	if _, err := f.ReadAt(b[:], super); err != nil || binary.LittleEndian.Uint16(b[magicAt:]) != magic {
		return ""
	}
	label, _, _ := bytes.Cut(b[labelAt:], []byte{0})
	return string(label)
}
