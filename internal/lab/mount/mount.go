// Package mount mounts folders of the controller's machine in virtual machines, with the servers that people use:
// QEMU's 9p, virtiofsd, NFS-Ganesha or the kernel's nfsd, Samba, OpenSSH, rsync. tare has no server of its own.
//
// It is opinionated about privacy. Every server has its own configuration below the run's private directory, its own
// port on the loopback and its own secret, and ends with the environment. It shares one fresh folder and nothing of the
// user's.
package mount

import (
	"context"
	"log/slog"
	"os"

	"tare/internal/lab/env"
	"tare/internal/measure/guestabi"
	"tare/internal/record"
)

// Request describes the mount to make.
type Request struct {
	env.Spec // Driver is the kind
	RunID    string
	// Dir is an existing private directory for the server's files. Its path is short enough for sockets.
	Dir string
	// Folder is the host folder to serve. It exists and is empty.
	Folder string
	// Link is the number, 0 to 255, of the private link that the mount may use. It is unique in its machine.
	Link int
	Log  *slog.Logger
}

// Served is a folder that is served to one virtual machine.
type Served struct {
	Mount record.Mount    // Kind, Dir, HostDir, Settings, Server, Command
	Order *guestabi.Mount // the agent's part in the guest; nil if there is none
	// Modules are the kernel modules that the guest needs. Optional are those that it loads if the kernel has them.
	Modules, Optional []string
	// Programs are the absolute paths of host programs that the guest needs, with their shared libraries.
	Programs []string
	// Devices are arguments for QEMU, in pairs such as "-device", "vhost-user-fs-pci,...".
	Devices []string
	// Share has the settings of Devices, for a manager that makes QEMU's arguments itself; nil if they share no folder.
	Share *Folder
	// SharedMemory says that the guest's memory must be a shared memfd.
	SharedMemory bool
	// Network says that the guest needs a network card with user-mode networking, to reach the host's loopback.
	Network bool
	// Tap is a Linux tap device with virtio headers for the network card of Order.Link; nil if there is none. Close
	// closes it.
	Tap *os.File
	// Diagnose returns the end of the server's log and output.
	Diagnose func() []byte
	// Life returns a channel that is closed when the server has ended, and a function that says why it ended. It is
	// called after the machine has booted. It is nil if the mount has no server process of its own, or if work goes on
	// without the server.
	Life func() (ended <-chan struct{}, why func() error)
	// Pid is the server's process, or 0 if it does not run. It is nil if the mount has no server process of its own.
	Pid func() int
	// Close ends the server and removes its files, but not Folder. It is idempotent. Call it after the guest has ended.
	Close func() error
}

// Folder is a folder of the host that QEMU itself shares with the guest.
type Folder struct {
	Tag string // the guest's name for it
	// Socket is where virtiofsd listens; "" if QEMU serves Path by 9p.
	Socket, Path string
	Queue        string // of virtiofs
	Model        string // QEMU's security_model, of 9p
	Immediate    bool   // 9p starts to write to the host's disk at once
}

// Serve starts what a mount needs. On failure it undoes every step and returns an *env.OpenError with evidence.
func Serve(ctx context.Context, r Request) (*Served, error) { return serve(ctx, r) }
