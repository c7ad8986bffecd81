package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tare/internal/measure/netpeer"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload"
	"tare/internal/measure/workload/all"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// Peer is the process at the other end of work on the network; *deploy.Peer implements it.
type Peer interface {
	// Start starts the peer unless it runs, and returns its port on this machine's loopback and the token that admits a
	// connection.
	Start(ctx context.Context) (port int, token string, err error)
	// At has it listen at another place as well, unless it does, and returns its port there.
	At(ctx context.Context, at netpeer.Place) (port int, token string, err error)
	// Ended says how it ended, if it did or does within a time.
	Ended(within time.Duration) error
}

// NeedsPeer tells whether any of a plan's workloads on an environment needs the run's peer, or reaches the environment
// from another one.
func NeedsPeer(p *plan.Plan, kinds func(string) (*workload.Kind, bool), environment string) bool {
	for i := range p.Workloads {
		w := &p.Workloads[i]
		k, ok := kinds(w.Kind)
		switch {
		case !ok:
		case k.NeedsPeer(w.Params) && w.On(environment), w.Params[workload.ToParam] == environment:
			return true
		case w.Params[workload.FromParam] != "" && slices.ContainsFunc(w.Targets, func(name string) bool {
			t, ok := p.Target(name)
			return ok && t.Place() == environment
		}):
			return true
		}
	}
	return false
}

// kindPeerDied is the failure of work whose other end has ended.
const kindPeerDied = "peer-died"

func (p *peerLink) needed(w *plan.Workload) bool {
	k, ok := p.kinds(w.Kind)
	return ok && k.NeedsPeer(w.Params)
}

// peerLink finds how work on the network reaches the run's peer.
type peerLink struct {
	other Peer // nil: there is none
	kinds func(name string) (*workload.Kind, bool)
	table *table
}

// of returns the way of a target to the run's peer, or why there is none; nil for work that needs none.
func (p *peerLink) of(ctx context.Context, w *plan.Workload, target string) *wire.Peer {
	if !p.needed(w) {
		return nil
	}
	t := p.table.targets[target]
	if to := w.Params[workload.ToParam]; to != "" {
		return p.in(ctx, w, to, t)
	}
	switch {
	case t.Unreached != nil:
		return &wire.Peer{Missing: t.Unreached.Error()}
	case p.other == nil || t.Loopback == "" && !t.PeerAt.Address.IsValid():
		return &wire.Peer{Missing: "this run has no peer"}
	}
	if t.PeerAt.Address.IsValid() {
		port, token, err := p.other.At(ctx, t.PeerAt)
		if err != nil {
			return &wire.Peer{Missing: err.Error()}
		}
		return &wire.Peer{Address: netip.AddrPortFrom(t.PeerAt.Address, uint16(port)).String(), Token: token}
	}
	port, token, err := p.other.Start(ctx)
	if err != nil {
		return &wire.Peer{Missing: err.Error()}
	}
	return &wire.Peer{Address: fmt.Sprintf("%s:%d", t.Loopback, port), Token: token}
}

// in returns the way of a target to the peer in another environment, which is started when it is first needed, or why
// there is none. The result holds for as long as both are open.
func (p *peerLink) in(ctx context.Context, w *plan.Workload, to string, t *target) *wire.Peer {
	o := p.table.targets[to]
	switch {
	case o == nil || o.dead != nil:
		return &wire.Peer{Missing: "the other end is to run in " + to + ", which is not open"}
	case all.Named(w.Kind).Is.Datagrams && o.Forward != nil && !o.is(t):
		return &wire.Peer{Missing: "only TCP is forwarded to " + to + ", and " + w.Kind + " sends datagrams; measure " +
			"it from " + to + " to this machine, without from and to"}
	}
	if known := t.peers[to]; known != nil {
		return known
	}
	ctx, cancel := proc.WithTimeout(ctx, otherEndTime)
	defer cancel()
	if o.peer == nil {
		token := netpeer.NewToken().Text()
		addresses, err := o.Agent.HostPeer(ctx, token)
		if err != nil {
			return &wire.Peer{Missing: fmt.Sprintf("start the other end in %s: %v", to, err)}
		}
		o.peer = &wire.Peer{Address: strings.Join(addresses, " "), Token: token}
	}
	places, err := placesFor(ctx, strings.Fields(o.peer.Address), o, t)
	if err != nil {
		return &wire.Peer{Missing: fmt.Sprintf("%s cannot be reached: %v", to, err)}
	}
	found, err := t.Agent.FindPeer(ctx, places, o.peer.Token)
	if err != nil {
		if o.Unreached != nil && !strings.Contains(o.peer.Address, " ") { // it has nothing but its own loopback
			err = o.Unreached
		}
		return &wire.Peer{Missing: fmt.Sprintf("no address of %s (%s) leads to the other end there: %v", to,
			o.peer.Address, err)}
	}
	if t.peers == nil {
		t.peers = map[string]*wire.Peer{}
	}
	t.peers[to] = &wire.Peer{Address: found, Token: o.peer.Token}
	return t.peers[to]
}

// otherEndTime bounds the search for a peer in an environment.
const otherEndTime = 2 * time.Minute

// placesFor are the addresses at which a target may find the peer in another environment: those that it listens on and,
// if that environment has the loopback of this machine, the one by which the target reaches this; or only the one that
// this machine's loopback has for it, where that environment is reached by no other way.
func placesFor(ctx context.Context, addresses []string, o, t *target) ([]string, error) {
	if len(addresses) == 0 || o.is(t) {
		return addresses, nil
	}
	if o.Forward != nil && t.Loopback != "" {
		at, err := netip.ParseAddrPort(addresses[len(addresses)-1])
		if err != nil || at.Addr().IsLoopback() {
			return nil, cmp.Or(o.Unreached, errors.New("it has no address but its own loopback's"))
		}
		there, err := t.through(ctx, o, at.Port())
		return []string{there.String()}, err
	}
	if o.Loopback != loopback || t.Loopback == "" || t.Loopback == o.Loopback {
		return addresses, nil
	}
	_, port, _ := strings.Cut(addresses[0], ":")
	return append([]string{t.Loopback + ":" + port}, addresses...), nil
}

// is tells whether two targets are in the same environment.
func (t *target) is(o *target) bool { return t == o || t.Agent != nil && t.Agent == o.Agent }

// loopback is the address of this machine's loopback, as this machine has it.
const loopback = "127.0.0.1"

// through returns the address at which a target finds a port of another environment that is reached by way of this
// machine's loopback.
func (t *target) through(ctx context.Context, o *target, port uint16) (at netip.AddrPort, err error) {
	if port, err = o.Forward(ctx, port); err != nil {
		return at, err
	}
	address, err := netip.ParseAddr(t.Loopback)
	return netip.AddrPortFrom(address, port), err
}

// blame puts the end of the peer in the place of the failure that followed from it.
func (p *peerLink) blame(w *plan.Workload, f *record.Failure) *record.Failure {
	if f == nil || f.Kind == "refused" || p.other == nil || !p.needed(w) || w.Params[workload.ToParam] != "" {
		return f
	}
	how := p.other.Ended(serverEndDelay)
	if how == nil {
		return f
	}
	return &record.Failure{
		Kind: kindPeerDied, Evidence: f.Evidence,
		Message: fmt.Sprintf("the peer, tare's process on this machine at the other end of the network, has ended: "+
			"%v; the work failed with: %s", how, f.Message),
	}
}
