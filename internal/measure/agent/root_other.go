//go:build !linux

package agent

import "tare/internal/sys/proc"

// enter does nothing here: only the first process of a Linux guest has workers in another root.
func enter(*proc.Cmd, string) {}

// distro is never asked for here.
func distro(string) string { return "" }
