// Package command is being written.
package command

import "tare/internal/env"

// Infos lists the drivers of this package.
func Infos() []env.Info { return nil }
