// Package guestabi has the constants that the host, which writes a guest's initramfs and kernel command line, shares
// with the agent, which is the guest's first process. It has no code, so that the agent does not contain the host's.
package guestabi

// Places in the guest.
const (
	Init    = "/init"    // the agent
	Modules = "/modules" // the kernel modules, flat
	// Order lists the modules' file names in the order of loading, one a line. Its presence tells the agent that it is
	// the first process of a machine and not of a container.
	Order = Modules + "/tare.order"
	// MayFail before a file name in Order means that the guest works without that module.
	MayFail = "-"
	Scratch = "/scratch" // where the scratch disk is mounted
	// Disks is the beginning of a link's path: every disk with a serial number has a link DisksSERIAL to its device, as
	// udev makes them.
	Disks = "/dev/disk/by-id/virtio-"
	// ByLabel before a label, in the place of a device, is the disk with an ext4 of that label.
	ByLabel = "LABEL="
	// NoDisk begins what the agent says where no disk has the label that follows.
	NoDisk = "there is no disk with an ext4 that is labelled"
)

// Port is the name of the virtio-serial port for the wire.
const Port = "tare.wire"

// Kernel arguments that the agent reads. The kernel itself ignores arguments with a dot in the name.
const (
	HostnameArg = "tare.hostname" // the guest's host name
	DisksArg    = "tare.disks"    // serial numbers of the other disks that get a link, separated by commas
	NetworkArg  = "tare.network"  // bring up the network card on QEMU's user-mode network
	// ScratchArg is the serial number, the device (/dev/NAME) or the label (ByLabel) of the disk to mount at Scratch;
	// absent when there is none.
	ScratchArg = "tare.scratch"
	// PortArg is the serial port for the wire, NAME,BAUD as in console=. Without it the wire is the virtio-serial port.
	PortArg = "tare.port"
)
