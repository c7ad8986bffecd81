//go:build !linux

package mount

import "tare/internal/sys/proc"

func privateNamespaces(*proc.Cmd) {}
