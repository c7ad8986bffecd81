// Package ssh is being written.
package ssh

import "tare/internal/env"

// Infos lists the drivers of this package.
func Infos() []env.Info { return nil }
