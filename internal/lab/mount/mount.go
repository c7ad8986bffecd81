// Package mount puts folders of the controller's machine into virtual machines by the servers that people use: QEMU's
// 9p, virtiofsd, NFS-Ganesha or the kernel's nfsd, Samba, OpenSSH, rsync. There is no server of tare's own.
//
// It is opinionated about privacy: every server runs with a configuration written for it alone, below the run's private
// directory, listens on loopback with a port of its own and a secret of its own, and ends with the environment. It
// shares one fresh folder and nothing of the user's.
package mount

import (
	"context"
	"log/slog"
	"os"

	"tare/internal/lab/env"
	"tare/internal/measure/guestabi"
	"tare/internal/record"
)

// Request is what a mount is made from.
type Request struct {
	env.Spec // Driver is the kind
	RunID    string
	// Dir is an existing private directory for the server's files; its path is short enough for sockets.
	Dir string
	// Folder is the existing, empty host folder to serve.
	Folder string
	// Link is the number, 0 to 255, of the private link that the mount may have, unique in its machine.
	Link int
	Log  *slog.Logger
}

// Served is a folder that is being served to one virtual machine.
type Served struct {
	Mount record.Mount    // Kind, Dir, HostDir, Settings, Server, Command
	Order *guestabi.Mount // what the agent in the guest does; nil when nothing
	// Modules are the kernel modules the guest needs, Optional those it should get where the kernel has them.
	Modules, Optional []string
	// Programs are host programs, by absolute path, that the guest needs with the libraries they link.
	Programs []string
	// Devices are arguments for QEMU, in pairs such as "-device", "vhost-user-fs-pci,...".
	Devices []string
	// SharedMemory says that the guest's memory must be a shared memfd.
	SharedMemory bool
	// Network says that the guest needs a network card with user-mode networking that reaches the host's loopback.
	Network bool
	// Tap is a Linux tap device with virtio headers for the network card of Order.Link; nil when there is none. Close
	// closes it.
	Tap *os.File
	// Diagnose returns the end of the server's log and output.
	Diagnose func() []byte
	// Life returns a channel that is closed when the server has ended, and what tells how it ended. It is asked once
	// the machine that the server serves is up. nil where no process of its own serves, or work goes on without it.
	Life func() (ended <-chan struct{}, why func() error)
	// Close ends the server and removes its files, but not Folder. It is idempotent. It is called after the guest is
	// gone.
	Close func() error
}

// Serve starts what a mount needs. On failure everything begun is undone and the error is an *env.OpenError with
// evidence.
func Serve(ctx context.Context, r Request) (*Served, error) { return serve(ctx, r) }
