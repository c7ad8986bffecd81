package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tare/internal/measure/netpeer"
	"tare/internal/measure/wire"
	"tare/internal/sys/proc"
)

// maxPlaces bounds the addresses of a peer.
const maxPlaces = 32

// startPeerTime bounds the time until a peer listens.
const startPeerTime = 30 * time.Second

// peer starts a peer for the work of other environments, unless one was started, or looks which address leads to one.
func (a *server) peer(ctx context.Context, f wire.Frame) error {
	var p wire.Peer
	if err := f.Decode(&p); err != nil {
		return a.refuse(f, kindRefused, err.Error())
	}
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if p.Address != "" {
			p.Address, err = netpeer.Reached(strings.Fields(p.Address), p.Token)
			return
		}
		if a.other == nil {
			err = a.startPeer(ctx, p.Token)
		}
		p.Address = a.places
	}()
	// There is nothing to cancel: both end soon.
	if gone := a.attend(done, func() {}, "a peer is being started"); gone != nil {
		return gone
	}
	if err != nil {
		return a.refuse(f, "peer", err.Error())
	}
	p.Token = ""
	return a.out.JSON(wire.TypePeer, f.Trial, p)
}

// startPeer starts a peer, which listens at every address of this system.
func (a *server) startPeer(ctx context.Context, token string) error {
	other, err := proc.Start(proc.Command(context.WithoutCancel(ctx), a.Peer...))
	if err != nil {
		return err
	}
	late := time.AfterFunc(startPeerTime, func() { other.Kill() })
	said := bufio.NewReader(other)
	near, err := netpeer.Ask(other, said, token)
	everywhere := 0
	if err == nil {
		everywhere, err = netpeer.Ask(other, said, "0.0.0.0")
	}
	if late.Stop(); err != nil {
		err = fmt.Errorf("%w; its last output: %s", err, proc.Printable(other.Diagnose()))
		return errors.Join(err, other.Close())
	}
	a.other, a.places = other, fmt.Sprint("127.0.0.1:", near)
	for _, address := range addresses() {
		a.places += fmt.Sprint(" ", address, ":", everywhere)
	}
	return nil
}
