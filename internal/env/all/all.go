// Package all lists every driver; adding one is one line here.
package all

import (
	"slices"

	"tare/internal/env"
	"tare/internal/env/command"
	"tare/internal/env/container"
	"tare/internal/env/local"
	"tare/internal/env/namespace"
	"tare/internal/env/qemu"
	"tare/internal/env/ssh"
)

// Drivers returns the table of all drivers, in the order they are listed to the user.
func Drivers() *env.Registry {
	return env.NewRegistry(slices.Concat(
		local.Infos(),
		namespace.Infos(),
		container.Infos(),
		qemu.Infos(),
		ssh.Infos(),
		command.Infos(),
	)...)
}
