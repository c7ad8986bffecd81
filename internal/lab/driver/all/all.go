// Package all lists every driver. A new driver is one new line here.
package all

import (
	"slices"
	"sync"

	"tare/internal/lab/driver/command"
	"tare/internal/lab/driver/container"
	"tare/internal/lab/driver/libvirt"
	"tare/internal/lab/driver/local"
	"tare/internal/lab/driver/namespace"
	"tare/internal/lab/driver/qemu"
	"tare/internal/lab/driver/serial"
	"tare/internal/lab/driver/ssh"
	"tare/internal/lab/driver/vagrant"
	"tare/internal/lab/driver/virtualbox"
	"tare/internal/lab/driver/vmware"
	"tare/internal/lab/env"
)

// Known is the table of all drivers for those who only look up what a driver says of itself (env.Nature).
var Known = sync.OnceValue(Drivers)

// Drivers returns the table of all drivers, in the order in which users see them.
func Drivers() *env.Registry {
	return env.NewRegistry(slices.Concat(
		local.Infos(),
		namespace.Infos(),
		container.Infos(),
		qemu.Infos(),
		libvirt.Infos(),
		serial.Infos(),
		vagrant.Infos(),
		virtualbox.Infos(),
		vmware.Infos(),
		ssh.Infos(),
		command.Infos(),
	)...)
}
