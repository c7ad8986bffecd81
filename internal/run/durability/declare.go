package durability

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	drivers "tare/internal/lab/driver/all"
	"tare/internal/lab/env"
	"tare/internal/record"
)

// memoryFS are file systems that no flush leads out of.
var memoryFS = []string{"tmpfs", "ramfs"}

// diskFS are file systems whose flush goes to the disk beneath them, unless an option says otherwise.
var diskFS = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "apfs", "hfs", "ufs", "NTFS"}

// filesOf tells what the files of a driver's environments are on.
func filesOf(driver string) env.Files { return drivers.Known().Nature(driver).Files }

// microVM tells whether a driver's machines run in QEMU with a disk that tare has made, and whose cache mode it has
// set.
func microVM(driver string) bool { return filesOf(driver) == env.FilesQEMU }

// Declared is what an environment's facts say of a flush in it: the configuration audit, which costs nothing. driver is
// the name of its driver. The verdict is always UNTESTED, because a declaration is no test; the class is "unknown"
// where something is in between that is not known here.
func Declared(driver string, e *record.Environment) record.Durability {
	d := record.Durability{Verdict: record.Untested, Class: ClassUnknown,
		Text: "it is not known what a flush does here"}
	kind, options := fileSystem(e)
	if slices.Contains(memoryFS, kind) {
		d.Class, d.Text = ClassMemory, "files are in memory ("+kind+"): a flush has nowhere to go"
		return d
	}
	found := audit(driver, e, kind, options)
	for _, f := range found {
		d.Settings = append(d.Settings, record.Warning{Code: f.Code, Text: f.Text, Remedy: f.Remedy})
	}
	if i := slices.IndexFunc(found, func(f Finding) bool { return f.Ignores }); i >= 0 {
		d.Class, d.Text = ClassIgnores, found[i].Text
		return d
	}
	if slices.Contains(diskFS, kind) && (filesOf(driver) == env.FilesHost || cache(driver, e) != "" ||
		filesOf(driver) == env.FilesVirtualBox && Image(e) != "") {
		d.Class, d.Text = ClassFlushes, "no setting was found that ignores flushes"
	}
	return d
}

// audit reads every configuration that the facts have.
func audit(driver string, e *record.Environment, kind, options string) []Finding {
	found := MountOptions(kind, options)
	if filesOf(driver) == env.FilesVirtualBox {
		return append(found, virtualBoxDisk(e)...)
	}
	mode := cache(driver, e)
	switch argv := diskArguments(e); {
	case mode != "" && len(argv) > 0:
		found = append(found, QEMU(argv)...)
	case mode == "unsafe": // the command line is not there, or was shortened
		found = append(found, QEMU([]string{"-drive", "cache=unsafe"})...)
	}
	// A disk whose hypervisor writes through has no cache to flush, and the guest is right not to.
	if machine := e.Inside.Extra["hypervisor.vm"] != "" ||
		microVM(driver); machine && mode != "writethrough" && mode != "directsync" {
		for _, f := range WriteCache(e.Inside.Extra["work.disk.name"], e.Inside.Extra["work.disk.write_cache"]) {
			f.Ignores = mode != "" // of others it is not known whether their disk has a cache
			found = append(found, f)
		}
	}
	if m := e.Mount; m != nil {
		found = append(found, served(m)...)
	}
	return found
}

// served reads the settings of a server that tare itself has configured.
func served(m *record.Mount) []Finding {
	var found []Finding
	switch {
	case m.Kind == "smb" && m.Settings["strict_sync"] == "off":
		found, _ = Samba("[share]\nstrict sync = no\n")
	case m.Kind == "nfs" && m.Settings["async"] == "on":
		found, _ = Exports(cmp.Or(m.Dir, "/") + " *(async)\n")
	}
	return found
}

// diskArguments are those of QEMU's arguments that tell of the disk that the files are on.
func diskArguments(e *record.Environment) []string {
	image := Image(e)
	var argv []string
	for _, d := range drives(e.Outside.Command) {
		if d.file == image {
			argv = append(argv, "-blockdev", d.argument)
		}
	}
	return argv
}

// qemuDrive is a disk as QEMU was told of it.
type qemuDrive struct{ name, file, argument string }

// drives lists the disks of a command line of QEMU that are given in JSON, as tare gives them.
func drives(argv []string) (all []qemuDrive) {
	for i := 1; i < len(argv); i++ {
		var node struct {
			Name string `json:"node-name"`
			File struct {
				Name string `json:"filename"`
			} `json:"file"`
		}
		if argv[i-1] == "-blockdev" && len(argv[i]) < MaxConfig && json.Unmarshal([]byte(argv[i]), &node) == nil &&
			node.File.Name != "" {
			all = append(all, qemuDrive{node.Name, node.File.Name, argv[i]})
		}
	}
	return all
}

// scratch is the name of the disk that a micro-VM works on when it is not told where.
const scratch = "scratch"

// Image is the file on this machine that holds the disk which files of the target are on; empty where they are on none
// that tare knows. A copy that a program keeps up to date is on its machine's own disk.
func Image(e *record.Environment) string {
	if image := imageFact(e); image != "" {
		return image
	}
	if m := e.Mount; m != nil {
		switch k := drivers.Known().KindOf(m.Kind); {
		case k.Disk && len(m.Command) > 0:
			return m.Command[len(m.Command)-1] // the program that made the file system was given it
		case !k.Sync:
			return ""
		}
	}
	for _, d := range drives(e.Outside.Command) {
		if d.name == scratch {
			return d.file
		}
	}
	return ""
}

// imageFact is that file where the driver says so in a fact.
func imageFact(e *record.Environment) string {
	switch m := e.Mount; {
	case m == nil:
		return e.Outside.Extra["disk.image"]
	case drivers.Known().KindOf(m.Kind).Disk:
		return m.Facts["disk.image"]
	}
	return ""
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
	if !microVM(driver) {
		return ""
	}
	if e.Mount == nil {
		return e.Outside.Settings["cache"]
	}
	switch k := drivers.Known().KindOf(e.Mount.Kind); {
	case k.Disk:
		return e.Mount.Settings["cache"]
	case k.Sync:
		return e.Outside.Settings["cache"]
	}
	return ""
}
