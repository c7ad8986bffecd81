// Package guestabi is what the host, which writes a guest's initramfs and kernel command line, and the agent, which is
// the guest's first process, both know. It has no code, so that the agent does not carry the host's.
package guestabi

// Places in the guest.
const (
	Init    = "/init"    // the agent
	Modules = "/modules" // the kernel modules, flat
	// Order lists the modules' file names in the order of loading, one a line. Its presence tells the agent that it is
	// the first process of a machine and not of a container.
	Order = Modules + "/tare.order"
	// MayFail before a file name in Order means that the guest goes on without that module.
	MayFail = "-"
	Scratch = "/scratch" // where the scratch disk is mounted
	// Disks is where every disk with a serial number has a link DisksSERIAL to its device, as udev makes them.
	Disks = "/dev/disk/by-id/virtio-"
)

// Port is the name of the virtio-serial port for the wire.
const Port = "tare.wire"

// Kernel arguments that the agent reads. The kernel itself ignores what has a dot in its name.
const (
	HostnameArg = "tare.hostname" // the guest's host name
	DisksArg    = "tare.disks"    // serial numbers, with commas between, of the disks that get a link besides
	NetworkArg  = "tare.network"  // bring up the card on QEMU's user-mode network
	ScratchArg  = "tare.scratch"  // serial number of the disk to mount at Scratch; absent when there is none
)
