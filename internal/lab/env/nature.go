package env

// Nature is what a driver says of its environments to those who know only its name, from a plan or from a bundle. They
// ask package driver/all. The zero Nature is that of a driver that is not known there, as in the bundle of an older
// release: nothing is assumed of it.
//
//	it says                                            asked by                           without it
//	Host      it is the controller's machine itself    the judges of runs and fleets      it is another place
//	Kernel    whose kernel counts its time             verdict: clocks, flushes           another one
//	Files     what its files are on                    durability, schedule               it is not known
//	HostName  tare names it as the plan does           redact                             its owner named it
//	Arg       what its argument names                  redact, tare ab                    nothing
//	Speedup   what ends the emulation of a machine     verdict                            an accelerator of QEMU's
type Nature struct {
	// Host says that the environment is the controller's machine itself, without any layer in between.
	Host bool
	// Kernel tells whether its kernel is the controller's.
	Kernel Kernel
	// Files tells what the files of its work directory are on.
	Files Files
	// HostName says that tare gives the environment its host name: what it is called in the plan.
	HostName bool
	// Arg is what the argument of a spec names.
	Arg Names
	// Speedup is what a user can do about a machine whose processor is emulated: an imperative; "" if it is what helps
	// most machines. Facts.Hypervisor of the machine begins with the driver's name.
	Speedup string
}

// Kernel tells whether environments have the controller's kernel.
type Kernel int

// The answers of Nature.Kernel.
const (
	KernelOther Kernel = iota // one of its own, or it is not known
	KernelMaybe               // the controller's, unless what makes the environments is in a machine of its own
	KernelHost                // the controller's
)

// Files tells what the files of environments are on, for who asks what a flush there is worth.
type Files int

// The answers of Nature.Files.
const (
	FilesUnknown    Files = iota
	FilesHost             // a disk of the controller's machine, with nothing in between
	FilesQEMU             // a disk that tare made for QEMU, whose cache mode it set
	FilesVirtualBox       // a disk of VirtualBox, of a controller and with settings that tare knows if it made them
)

// OnVirtualDisk tells whether files are on a virtual disk or a share that is served on the controller's machine.
func (f Files) OnVirtualDisk() bool { return f == FilesQEMU || f == FilesVirtualBox }

// Names is whom or what a text names, for who hides names.
type Names int

// What an argument or a setting's value names.
const (
	NamesNothing  Names = iota
	NamesUser           // USER[:GROUP]
	NamesInstance       // what a person called a machine, a container, a pod, a cluster or a network
	NamesAddress        // [SCHEME://][USER[:PASSWORD]@]HOST[:PORT]
	NamesImage          // [REGISTRY/][OWNER/]IMAGE[:TAG] of containers
	NamesArgv           // a command line that leads into the environment
	NamesOptions        // OpenSSH's options: KEY=VALUE;KEY=VALUE
)

// Nature returns what the driver of that name says of its environments; the zero Nature if it is not in the table.
func (r *Registry) Nature(driver string) Nature {
	for i := range r.infos {
		if r.infos[i].Name == driver {
			return r.infos[i].Nature
		}
	}
	return Nature{}
}

// KindOf returns the kind of mount of that name, whichever driver has it: what it is (MountKind.Disk, Sync) is the same
// for all. It is the zero MountKind if no driver has one.
func (r *Registry) KindOf(mount string) MountKind {
	for i := range r.infos {
		if k, ok := r.infos[i].MountKind(mount); ok {
			return *k
		}
	}
	return MountKind{}
}

// SettingOf returns a setting of the driver or kind of mount of that name; the zero Setting if it is not in the table.
func (r *Registry) SettingOf(of, name string) Setting {
	for i := range r.infos {
		settings := r.infos[i].Settings
		if r.infos[i].Name != of {
			k, _ := r.infos[i].MountKind(of)
			if k == nil {
				continue
			}
			settings = k.Settings
		}
		for _, s := range settings {
			if s.Name == name {
				return s
			}
		}
	}
	return Setting{}
}
