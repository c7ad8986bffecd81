package deploy

import (
	"context"
	"strings"

	"tare/internal/measure/wire"
)

// HostPeer has the agent start a peer in its environment, unless it has done so, and returns the addresses at which the
// peer listens there, with their ports. Whoever knows the token of the first call is served. The peer ends with the
// agent. The error is a *record.Failure.
func (c *Conn) HostPeer(ctx context.Context, token string) (addresses []string, err error) {
	var told wire.Peer
	_, err = c.ask(ctx, wire.TypePeer, wire.Peer{Token: token}, wire.TypePeer, &told)
	return strings.Fields(told.Address), err
}

// FindPeer returns the first of some addresses by which the agent's environment reaches the peer that knows the token.
// The error, a *record.Failure, says why the last of them does not lead there.
func (c *Conn) FindPeer(ctx context.Context, addresses []string, token string) (address string, err error) {
	var told wire.Peer
	sought := wire.Peer{Address: strings.Join(addresses, " "), Token: token}
	_, err = c.ask(ctx, wire.TypePeer, sought, wire.TypePeer, &told)
	return told.Address, err
}
