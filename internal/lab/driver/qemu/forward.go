package qemu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"tare/internal/measure/guestabi"
)

// forwardTries is how often another free port is taken if a program takes one before QEMU does.
const forwardTries = 5

// Forward implements env.Forwarder by a rule of QEMU's user-mode network, which ends with QEMU.
func (v *vm) Forward(_ context.Context, port uint16) (at uint16, err error) {
	if v.network != nil {
		return 0, fmt.Errorf("with net=%s the machine is reached by nothing but the run's peer; use net=user",
			v.facts.Settings["net"])
	}
	if v.reach != nil {
		return 0, v.reach
	}
	if at = v.forwarded[port]; at != 0 {
		return at, nil
	}
	for range forwardTries {
		if at, err = freePort(); err != nil {
			return 0, err
		}
		// QEMU's protocol has no command for it but that for people, which answers with what went wrong. No network is
		// named: there is one, and libvirt calls it otherwise.
		said := ""
		err = v.ask(fmt.Sprintf(`human-monitor-command {"command-line":"hostfwd_add tcp:127.0.0.1:%d-%s:%d"}`, at,
			guestabi.GuestAddress, port), answerTime, &said)
		if err != nil {
			return 0, err
		}
		if said = strings.TrimSpace(said); said == "" {
			if v.forwarded == nil {
				v.forwarded = map[uint16]uint16{}
			}
			v.forwarded[port] = at
			return at, nil
		}
		err = errors.New("ask QEMU to forward a port: " + said)
	}
	return 0, err
}

// freePort asks the kernel for a free port of 127.0.0.1.
func freePort() (uint16, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	at, err := netip.ParseAddrPort(l.Addr().String())
	return at.Port(), errors.Join(err, l.Close())
}
