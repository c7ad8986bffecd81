// Package namespace is being written.
package namespace

import "tare/internal/env"

// Infos lists the drivers of this package.
func Infos() []env.Info { return nil }
