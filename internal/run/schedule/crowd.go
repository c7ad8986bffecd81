package schedule

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload"
	"tare/internal/measure/workload/replay"
	"tare/internal/measure/workload/sql"
	"tare/internal/measure/workload/stack"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/run/crowd"
)

// kindLoadHostDied is the failure of a trial one of whose hosts is lost.
const kindLoadHostDied = "load-host-died"

const (
	// leastLead is the time from the announcement of the common beginning to the beginning, beside twice the longest
	// round trip, which mostLead bounds: an agent waits no longer than a second.
	leastLead = 5 * time.Millisecond
	mostLead  = 800 * time.Millisecond
	// counterLead is the time from the reading of a database server's counters to the hosts' beginning.
	counterLead = 20 * time.Millisecond
	// mostStagger bounds by how much the last of several hosts begins later, so that their requests do not fall due
	// together.
	mostStagger = 20 * time.Millisecond
	// crowdSteps bounds a calibration, and crowdStep how much the work grows at each of its steps.
	crowdSteps = 24
	crowdStep  = 10.0
)

// jointLoad does trials whose load several environments offer together, in the place of the target. The target serves:
// with its own server, which is started for the trial, or with one that is there already.
type jointLoad struct {
	x      *trialRunner
	w      *plan.Workload
	target string
	hosts  []workload.Share
	mark   func(begins bool) // may be nil
}

// member is one of the environments that offer the load.
type member struct {
	name  string
	agent Agent
	run   wire.Run
	// route returns the address at which this member reaches a port of the target; nil unless the trial starts the
	// server. listen is the address at which the server has to listen for that; invalid for all.
	route  func(port uint16) (netip.AddrPort, error)
	listen netip.Addr
}

// Calibrate implements worker: the work grows until all of it together takes long enough.
func (c *jointLoad) Calibrate(ctx context.Context, q wire.Calibrate) (got wire.Calibrated, err error) {
	most := int64(math.MaxInt64 / 2)
	if k, ok := c.x.kinds(c.w.Kind); ok {
		if n := k.WorkLimit(c.w.Params); n > 0 {
			most = n
		}
	}
	for i := range c.hosts {
		got.Work += c.hosts[i].Weight
	}
	if c.divided() {
		got.Work = 1 // of all hosts together; too few sessions for them are told
	}
	for range crowdSteps {
		o, err := c.do(ctx, wire.Run{Job: q.Job, Work: got.Work, Warmup: true}, false)
		if f, ok := errors.AsType[*record.Failure](err); ok && f.Kind == replay.TooFew && got.Work < most {
			got.Work = min(most, 2*got.Work)
			continue
		}
		if err != nil {
			return got, err
		}
		got.ElapsedNS, got.SetupNS = o.Result.ElapsedNS, o.SetupNS
		if got.ElapsedNS >= q.TargetNS || got.Work >= most {
			return got, nil
		}
		factor := min(crowdStep, 1.1*float64(q.TargetNS)/float64(max(1, got.ElapsedNS)))
		got.Work = min(most, max(got.Work+1, int64(float64(got.Work)*factor)))
	}
	return got, &record.Failure{Kind: kindNotCalibrated, Message: fmt.Sprintf("%s: no amount of work takes %v: its "+
		"time does not increase with the work", c.w.Kind, time.Duration(q.TargetNS))}
}

// Run implements worker.
func (c *jointLoad) Run(ctx context.Context, run wire.Run) (deploy.Outcome, error) {
	return c.do(ctx, run, true)
}

// memberResult is the result of a member, or of the server, whose number is below 0.
type memberResult struct {
	number int
	out    deploy.Outcome
	err    error
}

// do has all members do their shares together. When it returns, none of them works any more.
func (c *jointLoad) do(ctx context.Context, run wire.Run, strict bool) (o deploy.Outcome, err error) {
	o.Start = time.Now()
	members, err := c.members(ctx, run)
	if err != nil {
		return o, err
	}
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	mark := c.mark
	if mark == nil || !strict { // a calibration has no timed part to mark
		mark = func(bool) {}
	}
	g := &gate{open: make(chan struct{}), missing: len(members), gap: c.stagger(len(members)), mark: mark}
	if c.divided() && c.server() != nil {
		g.lead = counterLead
	}
	all, over := make(chan memberResult, len(members)+1), make(chan struct{})
	going := 0
	begin := func(number int, agent Agent, run wire.Run, h deploy.Held) {
		going++
		go func() {
			out, err := agent.RunHeld(ctx, run, h)
			all <- memberResult{number, out, err}
		}()
	}
	var first *memberResult
	var server *deploy.Outcome
	outs := make([]deploy.Outcome, len(members))
	take := func(e memberResult) {
		going--
		switch {
		case e.err != nil:
			if first == nil {
				first = &e
			}
			cancel()
		case e.number < 0:
			server = &e.out
		default:
			outs[e.number] = e.out
		}
	}
	offer := ""
	if agent := c.server(); agent != nil {
		offered := make(chan string, 1)
		ready := func(ctx context.Context, o string, _ int64) (int64, error) {
			offered <- o
			at, err := g.wait(ctx, 0)
			return at - int64(g.lead), err
		}
		run.Listen = listenAt(members)
		begin(-1, agent, run, deploy.Held{Over: over, Ready: ready})
		select {
		case offer = <-offered:
		case e := <-all:
			take(e)
		}
	}
	for i := range members {
		if first != nil {
			break
		}
		m := &members[i]
		if err := c.reach(m, offer); err != nil {
			first = &memberResult{number: i, err: err}
			cancel()
			break
		}
		begin(i, m.agent, m.run, deploy.Held{Ready: func(ctx context.Context, _ string, rtt int64) (int64, error) {
			return g.ready(ctx, i, rtt)
		}})
	}
	for left := len(members); going > 0; {
		e := <-all
		if take(e); e.number >= 0 {
			left--
		}
		if left == 0 && over != nil {
			if first == nil {
				mark(false)
			}
			close(over)
			over = nil
		}
	}
	switch {
	case outer.Err() != nil:
		return o, outer.Err()
	case first != nil && first.number < 0:
		return first.out, first.err
	case first != nil:
		m := &members[first.number]
		return o, c.failed(m.name, m.agent, len(members), first.err)
	}
	parts := make([]crowd.Part, len(members))
	for i := range members {
		parts[i] = crowd.Part{Name: members[i].name, Work: members[i].run.Work, Outcome: outs[i]}
		if c.divided() {
			parts[i].Units = run.Work
		}
	}
	got, err := crowd.Merge(parts, server, strict)
	if got.Start.IsZero() {
		got.Start = o.Start
	}
	return got, err
}

// listenAt is the address at which a server listens for some hosts; "" for all addresses.
func listenAt(members []member) string {
	at := members[0].listen
	for i := range members {
		if members[i].listen != at {
			return ""
		}
	}
	if !at.IsValid() {
		return ""
	}
	return at.String()
}

// reach tells a member where the server is that the target offers, if it does.
func (c *jointLoad) reach(m *member, offer string) (err error) {
	switch url := m.run.Params["url"]; {
	case m.route == nil:
		return nil
	case c.divided():
		s, err := sql.Reached(offer, m.route)
		m.run.Serving = &wire.Serving{Endpoint: s.Endpoint, Starts: s.Starts, Trials: s.Trials}
		return err
	case stack.Names(url):
		m.run.Serving = &wire.Serving{}
		m.run.Serving.Endpoint, err = stack.Reached(offer, url, m.route)
		return err
	default:
		at, err := m.route(port(offer))
		m.run.Params["url"] = fmt.Sprintf("http://%s/page.bin", at)
		return err
	}
}

func port(offer string) uint16 {
	n, _ := strconv.ParseUint(offer, 10, 16)
	return uint16(n)
}

// failed says which of the hosts failed.
func (c *jointLoad) failed(name string, agent Agent, hosts int, err error) *record.Failure {
	f := *failure("load-host-failed", err)
	if !agent.Alive() {
		f.Kind = kindLoadHostDied
	}
	f.Message = fmt.Sprintf("%s, one of the %d hosts that offered the load: %s", name, hosts, f.Message)
	return &f
}

// server is the agent that serves meanwhile; nil if the target is one of the hosts, or if its peer serves.
func (c *jointLoad) server() Agent {
	e, ok := c.x.plan.Target(c.target)
	if !ok || c.usesPeer() || c.divided() && !c.startsServer() {
		return nil
	}
	for i := range c.hosts {
		if c.hosts[i].Name == e.Place() {
			return nil
		}
	}
	return c.x.table.targets[c.target].Agent
}

// usesPeer tells whether the other end is a peer in the target.
func (c *jointLoad) usesPeer() bool {
	k, ok := c.x.kinds(c.w.Kind)
	return ok && k.Needs.Peer
}

// startsServer tells whether the server is tare's own, in the target.
func (c *jointLoad) startsServer() bool {
	p := c.w.Params
	return !c.usesPeer() && (p["url"] == "" && p["urls"] == "" && p["address"] == "" || stack.Names(p["url"]))
}

// divided tells whether the members divide the content of the work among them, and not its units.
func (c *jointLoad) divided() bool {
	k, ok := c.x.kinds(c.w.Kind)
	return ok && k.Divided
}

// members are the environments with their shares of the work, each with a way to the target.
func (c *jointLoad) members(ctx context.Context, run wire.Run) (all []member, err error) {
	whole, weights := int64(0), []int64{}
	for i := range c.hosts {
		whole += c.hosts[i].Weight
		weights = append(weights, c.hosts[i].Weight)
	}
	assigned := int64(0)
	for i, h := range c.hosts {
		t := c.x.table.targets[h.Name]
		if t == nil || t.dead != nil || !t.Agent.Alive() {
			why := "it is lost"
			if t != nil && t.dead != nil {
				why = t.dead.Message
			}
			return nil, &record.Failure{Kind: kindLoadHostDied, Message: fmt.Sprintf("%s, one of the %d hosts that "+
				"offer the load, is not open: %s", h.Name, len(c.hosts), why)}
		}
		m := member{name: h.Name, agent: t.Agent, run: run}
		m.run.Root, m.run.Service = t.Root, ""
		m.run.Seed += uint64(i) // their requests fall due at other times
		m.run.Params = maps.Clone(run.Params)
		delete(m.run.Params, workload.FromParam)
		// The server's data are for the target alone.
		if m.run.Files, err = c.x.supplies.bring(ctx, c.w, h.Name, "data"); err != nil {
			return nil, c.failed(h.Name, t.Agent, len(c.hosts), err)
		}
		from := portion(run.Work, assigned, whole)
		assigned += h.Weight
		if c.divided() {
			m.run.Parts, m.run.Part = weights, i
		} else if m.run.Work = portion(run.Work, assigned, whole) - from; m.run.Work < 1 {
			return nil, &record.Failure{Kind: "refused", Message: fmt.Sprintf("%d units of work are too few for %d "+
				"hosts; use longer trials", run.Work, len(c.hosts))}
		}
		if text := m.run.Params["rate"]; text != "" && !c.usesPeer() {
			rate, _ := strconv.ParseFloat(text, 64)
			m.run.Params["rate"] = strconv.FormatFloat(rate*float64(h.Weight)/float64(whole), 'g', -1, 64)
		}
		if c.usesPeer() || c.startsServer() {
			place := c.target
			if e, ok := c.x.plan.Target(c.target); ok {
				place = e.Place()
			}
			peer := c.x.peer.in(ctx, c.w, place, t)
			at, err := netip.ParseAddrPort(peer.Address)
			switch {
			case peer.Missing != "" || err != nil:
				return nil, &record.Failure{Kind: "refused", Message: fmt.Sprintf("%s does not reach %s, which it is "+
					"to load: %s", h.Name, c.target, peer.Missing)}
			case c.usesPeer():
				m.run.Params[workload.ToParam], m.run.Peer = c.target, peer
			default:
				m.setRoute(ctx, c.x.table.targets[place], t, at.Addr())
			}
		}
		all = append(all, m)
	}
	return all, nil
}

// setRoute keeps how a member, a target, reaches another environment, whose peer it found at an address.
func (m *member) setRoute(ctx context.Context, o, t *target, at netip.Addr) {
	m.route = func(port uint16) (netip.AddrPort, error) { return netip.AddrPortFrom(at, port), nil }
	switch {
	case o.Forward != nil && t.Loopback != "" && !o.is(t):
		m.route = func(port uint16) (netip.AddrPort, error) { return t.through(ctx, o, port) }
	case o.Loopback == loopback && at.String() == t.Loopback:
		m.listen = netip.MustParseAddr(loopback)
	default:
		m.listen = at
	}
}

// portion returns the share of work that belongs to parts of all.
func portion(work, parts, all int64) int64 {
	return int64(float64(work) * (float64(parts) / float64(all)))
}

// stagger returns the delay of each host after the one before, so that requests that are due at equal distances are so
// over all hosts; 0 for none.
func (c *jointLoad) stagger(hosts int) time.Duration {
	rate, err := strconv.ParseFloat(c.w.Params["rate"], 64)
	if err != nil || rate <= 0 || c.usesPeer() || c.w.Params["arrivals"] != "constant" {
		return 0
	}
	gap := 1e9 / rate
	if gap*float64(hosts) > float64(mostStagger) {
		return 0
	}
	return time.Duration(gap)
}

// gate opens when all are there, and says when they begin.
type gate struct {
	mark func(begins bool)
	gap  time.Duration
	lead time.Duration // by how much the server begins before them
	open chan struct{} // closed once at is known

	mu      sync.Mutex
	missing int
	rtt     int64
	at      int64
}

// ready is called by each of them; it returns when all have called it, or with the error of ctx.
func (g *gate) ready(ctx context.Context, number int, rtt int64) (at int64, err error) {
	g.mu.Lock()
	g.rtt = max(g.rtt, rtt)
	if g.missing--; g.missing == 0 {
		g.at = soon(g.rtt) + int64(g.lead)
		g.mark(true)
		close(g.open)
	}
	g.mu.Unlock()
	return g.wait(ctx, number)
}

// soon returns the time, by wire.Now, at which a trial can begin of which agents with a round trip of rtt ns are told
// now.
func soon(rtt int64) int64 { return wire.Now() + min(int64(mostLead), int64(leastLead)+2*rtt) }

func (g *gate) wait(ctx context.Context, number int) (at int64, err error) {
	select {
	case <-g.open:
		return g.at + int64(number)*int64(g.gap), nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// loseHosts gives up the environments of a workload's crowd that are lost. It is told once of each.
func (x *trialRunner) loseHosts(w *plan.Workload, f *record.Failure) {
	for _, h := range w.Crowd() {
		if t := x.table.targets[h.Name]; t != nil && t.dead == nil && !t.Agent.Alive() {
			x.lose(h.Name, f)
		}
	}
}
