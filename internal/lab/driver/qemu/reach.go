package qemu

import (
	"errors"

	"tare/internal/lab/env"
	"tare/internal/measure/guestabi"
)

// reach tells whether the guest has a card of its own on QEMU's user-mode network, on which the host is. One that is
// there for a mount only is not the user's choice, and would not be what is weighed.
func reach(s env.Spec) error {
	if s.Get("nic", "none") == "none" {
		return errors.New(s.Name + " has no network card (nic=none); use nic=virtio or nic=e1000")
	}
	return nil
}

// Loopback implements env.LoopbackProvider.
func (v *vm) Loopback() (string, error) { return guestabi.HostAddress, v.reach }
