package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tare/internal/measure/guestabi"
	"tare/internal/sys/netns"
)

// NetworkUp gives the first network card the address of QEMU's user-mode network. The host is on the same network, so
// no route is needed.
func NetworkUp() error {
	card, err := findCard(func(hardware string) bool { return !strings.HasPrefix(hardware, guestabi.LinkHardware) })
	if err != nil {
		return fmt.Errorf("%w; set nic=virtio for the environment", err)
	}
	return netns.Up(card, guestabi.GuestAddress)
}

// linkUp gives the network card of the link to another machine its address.
func linkUp(l *guestabi.Link) error {
	card, err := findCard(func(hardware string) bool { return hardware == l.Hardware })
	if err != nil {
		return err
	}
	return netns.Up(card, l.Address)
}

// findCard returns the name of the first network card with a matching hardware address.
func findCard(fits func(hardware string) bool) (string, error) {
	names, err := filepath.Glob("/sys/class/net/*/device")
	if err != nil {
		return "", err
	}
	slices.Sort(names)
	for _, n := range names {
		dir := filepath.Dir(n)
		if b, err := os.ReadFile(filepath.Join(dir, "address")); err == nil && fits(strings.TrimSpace(string(b))) {
			return filepath.Base(dir), nil
		}
	}
	return "", errors.New("the guest has no such network card")
}
