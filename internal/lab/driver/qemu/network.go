package qemu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"tare/internal/lab/env"
	"tare/internal/lab/mount"
	"tare/internal/measure/guestabi"
	"tare/internal/measure/netpeer"
)

// The values of the setting net.
const (
	netUser    = "user"
	netTap     = "tap"
	netBridge  = "bridge"
	netMacvtap = "macvtap"
)

// networkSettings are those of the machine's network card.
func networkSettings() []env.Setting {
	return []env.Setting{
		{Name: "nic", Default: "none", Doc: "Network card: none, virtio or e1000, which reaches nothing, or with " +
			"network workloads what the host reaches.",
			Check: env.OneOf("none", "virtio", "e1000"), Try: []string{"virtio", "e1000"}, Moves: env.MovesNetwork},
		{Name: "net", Default: netUser, Doc: "The card's network: user, QEMU's own; tap, bridge or macvtap, the " +
			"host's kernel in namespaces of the run's own (Linux, root).",
			Check: env.OneOf(netUser, netTap, netBridge, netMacvtap), Try: []string{netUser, netTap, netBridge},
			Moves: env.MovesNetwork},
		{Name: "vhost", Default: "off", Doc: "The host's kernel moves packets between guest and tap or macvtap in " +
			"QEMU's place: on or off; needs nic=virtio and /dev/vhost-net.",
			Check: env.OneOf("on", "off"), Try: []string{"on", "off"}, Moves: env.MovesNetwork},
	}
}

// nicOf is the card of a spec. Whoever says what a card is connected to wants one.
func nicOf(s env.Spec) string {
	fallback := "none"
	if s.Settings["net"] != "" {
		fallback = "virtio"
	}
	return s.Get("nic", fallback)
}

// reach tells whether the guest has its own card, by which it reaches the run's peer. A card that exists only for a
// mount does not count: the user did not choose it, so it is not to be measured.
func reach(s env.Spec) error {
	if nicOf(s) == "none" {
		return errors.New(s.Name + " has no network card (nic=none); use nic=virtio or nic=e1000")
	}
	return nil
}

// Loopback implements env.LoopbackProvider.
func (v *vm) Loopback() (string, error) {
	if v.network != nil {
		return "", fmt.Errorf("with net=%s the machine reaches only the run's peer; use net=user",
			v.facts.Settings["net"])
	}
	return guestabi.HostAddress, v.reach
}

// PeerPlace implements env.PeerPlacer: where there is no way to the host's loopback, the peer comes to the machine.
func (v *vm) PeerPlace() netpeer.Place {
	if v.network == nil {
		return netpeer.Place{}
	}
	return v.network.place
}

// paths say what lies between the card and the peer, for the facts.
var paths = map[string]string{
	netUser:    "QEMU's user-mode network, which reaches what the host reaches",
	netTap:     "a tap device in a network namespace, with the peer in the same one",
	netBridge:  "a tap device on a bridge and a veth pair, from one network namespace to the peer's",
	netMacvtap: "a macvtap in bridge mode on a veth pair, from one network namespace to the peer's",
}

// connect makes the network that the machine's card is connected to, once for all boots.
func (b *boot) connect() (err error) {
	if b.config.net == netUser || b.second != nil {
		return nil
	}
	b.op = "make network net=" + b.config.net
	b.network, b.remedy, err = makeNetwork(&b.config)
	return err
}

// learnNetwork adds to the facts what the card leads to.
func (b *boot) learnNetwork(extra map[string]string) {
	if x := b.extras(); x.peer {
		extra["nic.peer"] = b.config.nic + ", " + paths[b.config.net]
	}
}

// networkedMounts refuses mounts by a network that the guest does not have.
func networkedMounts(kinds []env.MountKind) []env.MountKind {
	for i, k := range kinds {
		kinds[i].CheckAll = func(in, s env.Spec) error {
			if net := in.Get("net", netUser); net != netUser && mount.OverNetwork(s) {
				return fmt.Errorf("%s is served on the host's loopback, which net=%s does not reach; use net=user, or "+
					"a mount without that network: 9p, virtiofs, disk or nfs?server=vm", s.Driver, net)
			}
			if k.CheckAll == nil {
				return nil
			}
			return k.CheckAll(in, s)
		}
	}
	return kinds
}

// kernelThreads finds the kernel's threads of a name. From Linux 6.4 on a vhost's thread is one of QEMU's own.
func kernelThreads(procfs, name string) (ids []int) {
	files, err := filepath.Glob(filepath.Join(procfs, "[0-9]*", "comm"))
	if err != nil {
		return nil
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		if is, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(is)) != name {
			continue
		}
		// Any program may take the name, but a program has something in its memory.
		if memory, err := os.ReadFile(filepath.Join(dir, "maps")); err != nil || len(memory) > 0 {
			continue
		}
		if id, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}
