// Package virtualbox makes machines of VirtualBox, by VBoxManage, and boots tare's medium in them: a DVD with a stock
// kernel and the agent. The wire is the machine's serial port.
//
// It is opinionated about other people's machines. Each environment has a VirtualBox of its own: its settings are in a
// private directory, its service behind a socket of its own. So no machine, disk or network of any user is met, and a
// killed run leaves a directory and nothing that is registered.
//
// It is opinionated about evidence, too. VirtualBox's own log says what executed the guest's code and what was done
// with
// its flushes; the facts have it. A CPU that VirtualBox interprets counts as emulated.
package virtualbox

import (
	"context"

	"tare/internal/lab/driver/ssh"
	"tare/internal/lab/env"
)

const name = "virtualbox"

// Infos lists the drivers of this package.
func Infos() []env.Info {
	return []env.Info{{
		Name:     name,
		Doc:      "A machine of VirtualBox, made for the run; with a name, one of yours that runs.",
		ArgDoc:   "NAME",
		Settings: settings(),
		Mounts:   mountKinds(),
		Driver:   driver{},
		Nature: env.Nature{Files: env.FilesVirtualBox,
			Speedup: "load VirtualBox's kernel driver (modprobe vboxdrv, or /sbin/vboxconfig builds it)"},
		Probe:     probe,
		OpenTime:  openTime,
		FreeSpace: ownDiskSpace,
		Clean:     clean,
		Plug:      plug,
		Alone:     alone,
	}}
}

func alone(s env.Spec) error {
	if s.Arg != "" && s.Get("clone", none) == none && s.Get(ssh.Address, "") == "" {
		return env.OneLine()
	}
	return nil
}

// driver opens machines. Its fields are for tests; empty fields mean the user's own folders.
type driver struct {
	kernels string // cache folder of guest kernels
}

var _ env.Driver = driver{}

// clean removes the sockets of services whose sessions are gone. All else is in private directories.
func clean(_ context.Context, dry bool) ([]string, error) { return cleanIPC(dry) }
