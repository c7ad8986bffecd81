package netns

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The functions of this file work in the calling thread's namespace: call them in Space.Do.

// order gives the kernel an order about a card; set completes it.
func order(card string, request uint, set func(*unix.Ifreq) error) (*unix.Ifreq, error) {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(s)
	r, err := unix.NewIfreq(card)
	if err != nil {
		return nil, err
	}
	if set != nil {
		if err := set(r); err != nil {
			return nil, err
		}
	}
	return r, unix.IoctlIfreq(s, request, r)
}

// Up brings a card up, with an IPv4 address in a network of 24 bits if there is one.
func Up(card, address string) error {
	fail := func(err error) error { return fmt.Errorf("bring up network card %s: %w", card, err) }
	if address != "" {
		a, err := netip.ParseAddr(address)
		if err != nil || !a.Is4() {
			return fail(fmt.Errorf("%q is not an IPv4 address", address))
		}
		for _, x := range []struct {
			request uint
			address [4]byte
		}{{unix.SIOCSIFADDR, a.As4()}, {unix.SIOCSIFNETMASK, [4]byte{255, 255, 255, 0}}} {
			if _, err := order(card, x.request, func(r *unix.Ifreq) error {
				return r.SetInet4Addr(x.address[:])
			}); err != nil {
				return fail(err)
			}
		}
	}
	now, err := order(card, unix.SIOCGIFFLAGS, nil)
	if err == nil {
		_, err = order(card, unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error {
			r.SetUint16(now.Uint16() | unix.IFF_UP)
			return nil
		})
	}
	if err != nil {
		return fail(err)
	}
	return nil
}

// Bridge makes a bridge. Cards that join it forward at once.
func Bridge(name string) error {
	return newCard("bridge", name, attr(unix.IFLA_BR_FORWARD_DELAY, number(0)))
}

// Join makes a card a port of a bridge.
func Join(bridge, card string) error {
	const addPort = 0x89a2 // SIOCBRADDIF, linux/sockios.h
	at, err := index(card)
	if err == nil {
		_, err = order(bridge, addPort, func(r *unix.Ifreq) error {
			r.SetUint32(at)
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("make network card %s a port of %s: %w", card, bridge, err)
	}
	return nil
}

func index(card string) (uint32, error) {
	r, err := order(card, unix.SIOCGIFINDEX, nil)
	if err != nil {
		return 0, err
	}
	return r.Uint32(), nil
}

// Veth makes a pair of cards that are connected, one of them in another namespace.
func Veth(here, there string, other *Space) error {
	const infoPeer = 1 // VETH_INFO_PEER, linux/veth.h
	space, err := os.Open(other.File())
	if err != nil {
		return err
	}
	defer space.Close()
	return newCard("veth", here, attr(infoPeer, make([]byte, unix.SizeofIfInfomsg), attr(unix.IFLA_IFNAME, text(there)),
		attr(unix.IFLA_NET_NS_FD, number(uint32(space.Fd())))))
}

// Tap makes a card whose other end is the file: a tap device with virtio headers.
func Tap(name string) (*os.File, error) {
	// Blocking, or Go's poller would watch it and wake up with each packet.
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	return asTap(fd, name)
}

func asTap(fd int, name string) (*os.File, error) {
	r, err := unix.NewIfreq(name)
	if err == nil {
		r.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, r)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("make network card %s, a tap device: %w", name, err)
	}
	return os.NewFile(uintptr(fd), "tap"), nil
}

// Macvtap makes a macvtap in bridge mode on another card, whose other end is the file, with virtio headers. It passes
// on the frames that are sent to the hardware address.
func Macvtap(name, on, hardware string) (*os.File, error) {
	const modeBridge = 4 // MACVLAN_MODE_BRIDGE, linux/if_link.h
	below, err := index(on)
	if err != nil {
		return nil, fmt.Errorf("find network card %s: %w", on, err)
	}
	address, err := parseHardware(hardware)
	if err != nil {
		return nil, err
	}
	if err := newCard("macvtap", name, attr(unix.IFLA_MACVLAN_MODE, number(modeBridge)),
		attr(unix.IFLA_LINK, number(below)), attr(unix.IFLA_ADDRESS, address)); err != nil {
		return nil, err
	}
	fd, err := openMacvtap(name)
	if err != nil {
		return nil, fmt.Errorf("open the device of network card %s: %w", name, err)
	}
	return asTap(fd, name)
}

func parseHardware(text string) ([]byte, error) {
	var b []byte
	for part := range strings.SplitSeq(text, ":") {
		n, err := strconv.ParseUint(part, 16, 8)
		if err != nil {
			return nil, fmt.Errorf("%q is not a hardware address", text)
		}
		b = append(b, byte(n))
	}
	return b, nil
}

// openMacvtap opens the character device of a macvtap. Its number is in a sysfs of its namespace, and the node that
// the kernel makes in the machine's /dev has a name that a macvtap of another namespace may have, too. So a sysfs and a
// node of our own are made, on file systems that are mounted nowhere.
func openMacvtap(name string) (int, error) {
	sysfs, err := unmounted("sysfs")
	if err != nil {
		return -1, err
	}
	defer unix.Close(sysfs)
	at, err := index(name)
	if err != nil {
		return -1, err
	}
	said, err := readAt(sysfs, fmt.Sprintf("class/macvtap/tap%d/dev", at))
	if err != nil {
		return -1, err
	}
	major, minor, _ := strings.Cut(strings.TrimSpace(said), ":")
	a, err := strconv.ParseUint(major, 10, 32)
	if err != nil {
		return -1, err
	}
	b, err := strconv.ParseUint(minor, 10, 32)
	if err != nil {
		return -1, err
	}
	tmpfs, err := unmounted("tmpfs")
	if err != nil {
		return -1, err
	}
	defer unix.Close(tmpfs)
	if err := unix.Mknodat(tmpfs, "tap", unix.S_IFCHR|0o600, int(unix.Mkdev(uint32(a), uint32(b)))); err != nil {
		return -1, fmt.Errorf("make a device: %w", err)
	}
	return unix.Openat(tmpfs, "tap", unix.O_RDWR|unix.O_CLOEXEC, 0)
}

// unmounted is a file system that is mounted nowhere and ends with the descriptor.
func unmounted(kind string) (int, error) {
	fail := func(err error) (int, error) {
		return -1, fmt.Errorf("have a %s that is mounted nowhere (Linux 5.2 and later): %w", kind, err)
	}
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fail(err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return fail(err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	return fd, nil
}

func readAt(dir int, name string) (string, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("read %s of sysfs: %w", name, err)
	}
	defer unix.Close(fd)
	b := make([]byte, 64)
	n, err := unix.Read(fd, b)
	return string(b[:max(n, 0)]), err
}
