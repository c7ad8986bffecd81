// Package local is being written.
package local

import "tare/internal/env"

// Infos lists the drivers of this package.
func Infos() []env.Info { return nil }
