// Package container is being written.
package container

import "tare/internal/env"

// Infos lists the drivers of this package.
func Infos() []env.Info { return nil }
