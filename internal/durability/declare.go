package durability

import (
	"slices"
	"strings"

	"tare/internal/record"
)

// memoryFS are file systems that no flush leads out of.
var memoryFS = []string{"tmpfs", "ramfs"}

// diskFS are file systems whose flush goes to the disk beneath them, unless an option says otherwise.
var diskFS = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "apfs", "hfs", "ufs", "NTFS"}

// localDrivers are drivers whose files are on a disk of the controller's machine with nothing in between.
var localDrivers = []string{"local", "namespace", "command"}

// Declared is what an environment's facts say of a flush in it: the configuration audit, which costs nothing. driver is
// the name of its driver. The verdict is always UNTESTED, because a declaration is no test; the class is "unknown" where
// something is in between that is not known here.
func Declared(driver string, e *record.Environment) record.Durability {
	d := record.Durability{Verdict: record.Untested, Class: ClassUnknown, Text: "nothing is known of what a flush does here"}
	kind, options := fileSystem(e)
	if slices.Contains(memoryFS, kind) {
		d.Class, d.Text = ClassMemory, "files are in memory ("+kind+"): a flush has nowhere to go"
		return d
	}
	found := MountOptions(kind, options)
	if cache(driver, e) == "unsafe" {
		found = append(found, Finding{Text: "QEMU ignores flushes of this disk (cache=unsafe)"})
	}
	for _, f := range found {
		if f.Code == "mount-data-writeback" {
			continue // it weakens what a crash leaves, not a flush
		}
		d.Class, d.Text = ClassIgnores, f.Text
		return d
	}
	if slices.Contains(diskFS, kind) && (slices.Contains(localDrivers, driver) || cache(driver, e) != "") {
		d.Class, d.Text = ClassFlushes, "no setting was found by which a flush would be ignored"
	}
	return d
}

// fileSystem is the kind and the options of where files are worked on.
func fileSystem(e *record.Environment) (kind, options string) {
	if e.Mount != nil {
		return e.Mount.Type, e.Mount.Options
	}
	kind, options, _ = strings.Cut(e.Inside.WorkFS, " (")
	return kind, strings.TrimSuffix(options, ")")
}

// cache is the cache mode of the virtual disk that files are on; "" when they are on none that tare made.
func cache(driver string, e *record.Environment) string {
	switch {
	case driver != "qemu":
		return ""
	case e.Mount == nil:
		return e.Outside.Settings["cache"]
	case e.Mount.Kind == "disk":
		return e.Mount.Settings["cache"]
	}
	return ""
}
