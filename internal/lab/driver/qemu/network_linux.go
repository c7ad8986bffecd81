package qemu

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"syscall"

	"tare/internal/measure/guestabi"
	"tare/internal/measure/netpeer"
	"tare/internal/sys/netns"
)

// network is the other end of the machine's card: a card of the host's kernel in a network namespace of the run's own.
// Nothing outside is changed, and the kernel removes all of it with this process.
type network struct {
	card   *link
	place  netpeer.Place // of the run's peer
	spaces []*netns.Space
}

// The names of the cards, each in a namespace of its own run.
const (
	tapCard    = "tap0"
	bridgeCard = "br0"
	nearCard   = "veth0"
	peerCard   = "eth0"
)

// guestHardware is the address of the guest's card, which is QEMU's own default.
const guestHardware = "52:54:00:12:34:56"

// The devices by which a program has a part in the kernel's network.
const (
	tunDevice   = "/dev/net/tun"
	vhostDevice = "/dev/vhost-net"
)

// makeNetwork makes the network that the settings ask for. The other end has the address that the host has on QEMU's
// user-mode network, so that the guest is told nothing else.
func makeNetwork(c *config) (_ *network, remedy string, err error) {
	n := &network{card: &link{id: "net", card: c.nic, hardware: guestHardware, tap: true}}
	defer func() {
		if err != nil {
			n.close()
			remedy = networkRemedy(c, err)
		}
	}()
	if c.vhost {
		if n.card.vhost, err = os.OpenFile(vhostDevice, os.O_RDWR, 0); err != nil {
			return nil, "", err
		}
	}
	near, err := n.space()
	if err != nil {
		return nil, "", err
	}
	peers := near
	if c.net == netTap {
		err = near.Do(func() error {
			if n.card.file, err = netns.Tap(tapCard); err != nil {
				return err
			}
			return netns.Up(tapCard, guestabi.HostAddress)
		})
	} else {
		if peers, err = n.space(); err != nil {
			return nil, "", err
		}
		err = near.Do(func() error { return n.toPeer(c.net, peers) })
		if err == nil {
			err = peers.Do(func() error { return netns.Up(peerCard, guestabi.HostAddress) })
		}
	}
	if err != nil {
		return nil, "", err
	}
	n.place = netpeer.Place{Address: netip.MustParseAddr(guestabi.HostAddress), Space: peers.File()}
	return n, "", nil
}

func (n *network) space() (*netns.Space, error) {
	s, err := netns.New(0)
	if err == nil {
		n.spaces = append(n.spaces, s)
	}
	return s, err
}

// toPeer connects the guest's card to a veth pair that leads to the peer's namespace.
func (n *network) toPeer(mode string, peers *netns.Space) (err error) {
	if err := netns.Veth(nearCard, peerCard, peers); err != nil {
		return err
	}
	if err := netns.Up(nearCard, ""); err != nil {
		return err
	}
	if mode == netMacvtap {
		if n.card.file, err = netns.Macvtap(tapCard, nearCard, guestHardware); err != nil {
			return err
		}
		return netns.Up(tapCard, "")
	}
	if n.card.file, err = netns.Tap(tapCard); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return netns.Bridge(bridgeCard) },
		func() error { return netns.Join(bridgeCard, tapCard) },
		func() error { return netns.Join(bridgeCard, nearCard) },
		func() error { return netns.Up(tapCard, "") },
		func() error { return netns.Up(bridgeCard, "") },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// close removes the network. It is idempotent.
func (n *network) close() {
	if n == nil {
		return
	}
	n.card.close()
	for _, s := range n.spaces {
		s.Close()
	}
}

// networkRemedy says what to do about a network that could not be made.
func networkRemedy(c *config, err error) string {
	var path *fs.PathError
	switch {
	case errors.As(err, &path) && path.Path == vhostDevice && errors.Is(err, fs.ErrNotExist):
		return "load the kernel's module: modprobe vhost_net; without it use vhost=off"
	case errors.As(err, &path) && path.Path == vhostDevice:
		return "run tare as root, or use vhost=off"
	case errors.Is(err, fs.ErrNotExist):
		return "load the kernel's module: modprobe tun; without it use net=user"
	case errors.Is(err, syscall.EOPNOTSUPP):
		return fmt.Sprintf("this kernel has no such card; load the modules: modprobe -a veth %s; without them use "+
			"net=tap or net=user", c.net)
	case errors.Is(err, fs.ErrPermission):
		return "run tare as root, with the capabilities CAP_SYS_ADMIN and CAP_NET_ADMIN, which a container may lack; " +
			"or use net=user"
	case errors.Is(err, syscall.ENOSPC):
		return "the limit of namespaces is reached: increase the sysctl user.max_net_namespaces"
	}
	return "use net=user, which needs nothing of the kernel"
}

// canNetwork says why the network that the settings ask for cannot be made here, as far as that is known without
// making it.
func canNetwork(c *config) (remedy string, err error) {
	if c.net == netUser {
		return "", nil
	}
	devices := []string{tunDevice}
	if c.net == netMacvtap {
		devices = nil
	}
	if c.vhost {
		devices = append(devices, vhostDevice)
	}
	for _, d := range devices {
		if _, err := os.Stat(d); err != nil {
			return networkRemedy(c, err), err
		}
	}
	if os.Geteuid() != 0 {
		err := fmt.Errorf("net=%s: %w", c.net, fs.ErrPermission)
		return networkRemedy(c, err), err
	}
	return "", nil
}
