package qemu

import (
	"errors"

	"tare/internal/lab/env"
	"tare/internal/measure/guestabi"
)

// reach tells whether the guest has its own card on QEMU's user-mode network, which includes the host. A card that
// exists only for a mount does not count: the user did not choose it, so it is not to be measured.
func reach(s env.Spec) error {
	if s.Get("nic", "none") == "none" {
		return errors.New(s.Name + " has no network card (nic=none); use nic=virtio or nic=e1000")
	}
	return nil
}

// Loopback implements env.LoopbackProvider.
func (v *vm) Loopback() (string, error) { return guestabi.HostAddress, v.reach }
