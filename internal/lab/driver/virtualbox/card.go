package virtualbox

import (
	"fmt"
	"maps"
	"slices"

	"tare/internal/measure/guestabi"
)

// nat is the mode of a network card behind VirtualBox's own network address translation. Its addresses are those of
// QEMU's user-mode network: the guest's, and the one that leads to this machine's loopback.
const nat = "nat"

// cards are the network cards with the modules that the guest needs for each.
func cards() map[string][]string {
	return map[string][]string{
		none: nil, "82540EM": {"e1000"}, "82545EM": {"e1000"}, "Am79C973": {"pcnet32"},
		"virtio": {"virtio_pci", "virtio_net"},
	}
}

func cardNames() []string { return slices.Sorted(maps.Keys(cards())) }

// reach tells whether a machine with these settings reaches this machine's loopback.
func reach(machine, card, mode string) error {
	if card == none || mode != nat {
		return fmt.Errorf("%s has no network (nic=%s, nic_mode=%s); use nic=virtio&nic_mode=nat", machine, card, mode)
	}
	return nil
}

// Loopback implements env.LoopbackProvider.
func (v *vm) Loopback() (string, error) { return guestabi.HostAddress, v.reach }
