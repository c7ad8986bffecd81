package guestabi

// A guest may have a root image: a disk with a distribution's files. The agent stays in the initramfs, with the
// programs that mounts need; its workers run in the image, which is never written to.
const (
	// RootArg is a kernel argument: the serial number of the disk with the image; absent when there is none.
	RootArg = "tare.root"
	// RootParts is the folder in which the image and the layer of writes over it are mounted.
	RootParts = "/guest"
	// Root is the two of them as one tree, which is the workers' root.
	Root = RootParts + "/root"
)
