// Package qemu is being written.
package qemu

import "tare/internal/env"

// Infos lists the drivers of this package.
func Infos() []env.Info { return nil }
