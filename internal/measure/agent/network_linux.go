package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"tare/internal/measure/guestabi"
)

// NetworkUp gives the first network card the address of QEMU's user-mode network. The host is on the same network, so
// no route is needed.
func NetworkUp() error {
	card, err := findCard(func(hardware string) bool { return !strings.HasPrefix(hardware, guestabi.LinkHardware) })
	if err != nil {
		return fmt.Errorf("%w; set nic=virtio for the environment", err)
	}
	return cardUp(card, guestabi.GuestAddress)
}

// linkUp gives the network card of the link to another machine its address.
func linkUp(l *guestabi.Link) error {
	card, err := findCard(func(hardware string) bool { return hardware == l.Hardware })
	if err != nil {
		return err
	}
	return cardUp(card, l.Address)
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

// cardUp gives a card an address with a netmask of 24 bits.
func cardUp(card, address string) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	r, err := unix.NewIfreq(card)
	if err != nil {
		return err
	}
	for _, a := range []struct {
		request uint
		address [4]byte
	}{{unix.SIOCSIFADDR, ip4(address)}, {unix.SIOCSIFNETMASK, [4]byte{255, 255, 255, 0}}} {
		if err := r.SetInet4Addr(a.address[:]); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(s, a.request, r); err != nil {
			return fmt.Errorf("set address of %s: %w", card, err)
		}
	}
	if err := unix.IoctlIfreq(s, unix.SIOCGIFFLAGS, r); err != nil {
		return err
	}
	r.SetUint16(r.Uint16() | unix.IFF_UP)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r); err != nil {
		return fmt.Errorf("bring up %s: %w", card, err)
	}
	return nil
}

// ip4 parses an address from the controller; a wrong one becomes 0.0.0.0.
func ip4(text string) (a [4]byte) {
	fmt.Sscanf(text, "%d.%d.%d.%d", &a[0], &a[1], &a[2], &a[3])
	return a
}
