package schedule

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/measure/netpeer"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
)

// peerWorld is a world whose targets have a way to a peer, but for one.
type peerWorld struct {
	*world
	jobs []wire.Job
}

func (w *peerWorld) Open(ctx context.Context, e *plan.Target, mounts []*plan.Target, session int) (Target, error) {
	t, err := w.world.Open(ctx, e, mounts, session)
	if t.Loopback = "10.0.2.2"; e.Name == "box" {
		t.Loopback, t.Unreached = "", errors.New("box has none; use net=host")
	}
	t.Agent = &peerAgent{t.Agent.(*simAgent), w}
	return t, err
}

type peerAgent struct {
	*simAgent
	w *peerWorld
}

func (a *peerAgent) Calibrate(ctx context.Context, c wire.Calibrate) (wire.Calibrated, error) {
	if a.w.jobs = append(a.w.jobs, c.Job); c.Peer.Missing != "" {
		return wire.Calibrated{}, &record.Failure{Kind: "refused", Message: c.Peer.Missing}
	}
	return a.simAgent.Calibrate(ctx, c)
}

func (a *peerAgent) Run(ctx context.Context, r wire.Run) (deploy.Outcome, error) {
	a.w.jobs = append(a.w.jobs, r.Job)
	return a.simAgent.Run(ctx, r)
}

// fakePeer counts its starts and ends when it is told.
type fakePeer struct {
	starts int
	failed error
	ended  error
}

func (p *fakePeer) At(ctx context.Context, _ netpeer.Place) (int, string, error) { return p.Start(ctx) }

func (p *fakePeer) Start(context.Context) (int, string, error) {
	p.starts++
	return 4711, "secret", p.failed
}

func (p *fakePeer) Ended(time.Duration) error { return p.ended }

var netKind = func() workload.Kind {
	k := simKind
	k.Needs.Peer = true
	return k
}()

func simulatePeer(t *testing.T, w *peerWorld, p *fakePeer, targets ...string) (*memorySink, []record.Trial) {
	t.Helper()
	m, _, err := simulate(t, t.Context(), w.world, simPlan(targets...), func(c *Config) {
		c.Opener, c.Peer = w, p
		c.Kinds = func(string) (*workload.Kind, bool) { return &netKind, true }
	})
	if err != nil && !errors.Is(err, ErrBaseline) {
		t.Fatal(err)
	}
	var failed []record.Trial
	for _, tr := range m.trials {
		if tr.Error != nil {
			failed = append(failed, tr)
		}
	}
	return m, failed
}

func TestJobsNameThePeer(t *testing.T) {
	w := &peerWorld{world: newWorld(0.005, map[string]float64{"host": 1, "box": 1, "vm": 2})}
	p := &fakePeer{}
	_, failed := simulatePeer(t, w, p, "host", "box", "vm")
	if p.starts == 0 {
		t.Error("the peer was not started")
	}
	missing := 0
	for _, j := range w.jobs {
		switch {
		case j.Peer == nil:
			t.Fatal("a job has no peer")
		case j.Peer.Missing != "":
			missing++
		case j.Peer.Address != "10.0.2.2:4711" || j.Peer.Token != "secret":
			t.Fatalf("a job has %+v", j.Peer)
		}
	}
	if missing != 2 || len(failed) != 2 || failed[0].Target != "box" || failed[0].Error.Kind != "refused" ||
		!strings.Contains(failed[0].Error.Message, "use net=host") {
		t.Errorf("%d jobs without a way, failed trials %+v", missing, failed)
	}
}

// What followed from the peer's end is told as that, and nothing is begun with a peer that is gone.
func TestAPeerThatEndsIsTheCause(t *testing.T) {
	w := &peerWorld{world: newWorld(0.005, map[string]float64{"host": 1, "vm": 2})}
	p := &fakePeer{}
	w.onTrial = func(n int) {
		if n == 9 {
			p.ended = errors.New("signal: killed")
			w.fails["host"], w.fails["vm"] = true, true
		}
	}
	_, failed := simulatePeer(t, w, p, "host", "vm")
	if len(failed) == 0 || len(failed) > 4 {
		t.Fatalf("%d trials failed", len(failed))
	}
	if slices.ContainsFunc(failed, func(tr record.Trial) bool {
		return tr.Error.Kind != kindPeerDied || !strings.Contains(tr.Error.Message,
			"has ended: signal: killed; the work failed with: no space")
	}) {
		t.Errorf("failed trials %+v", failed)
	}
}

func TestAPeerThatDoesNotStartIsSaid(t *testing.T) {
	w := &peerWorld{world: newWorld(0.005, map[string]float64{"host": 1, "vm": 2})}
	_, failed := simulatePeer(t, w, &fakePeer{failed: errors.New("no agent for this platform")}, "host", "vm")
	if len(failed) != 4 || !strings.Contains(failed[0].Error.Message, "no agent for this platform") {
		t.Errorf("failed trials %+v", failed)
	}
}

// toBox runs the simulated workload with its other end in the target box.
func toBox(t *testing.T, w *peerWorld) *memorySink {
	t.Helper()
	p := simPlan("host", "box", "vm")
	for i := range p.Workloads {
		p.Workloads[i].Params = workload.Params{workload.ToParam: "box"}
	}
	m, _, err := simulate(t, t.Context(), w.world, p, func(c *Config) {
		c.Opener, c.Peer = w, &fakePeer{failed: errors.New("nobody needs it")}
		c.Kinds = func(string) (*workload.Kind, bool) { return &netKind, true }
	})
	if err != nil && !errors.Is(err, ErrBaseline) {
		t.Fatal(err)
	}
	return m
}

func TestTheOtherEndIsInAnotherEnvironment(t *testing.T) {
	w := &peerWorld{world: newWorld(0.005, map[string]float64{"host": 1, "box": 1, "vm": 2})}
	m := toBox(t, w)
	if len(w.hosted) != 1 || w.hosted[0] != "box" || len(w.sought) != 3 {
		t.Errorf("asked for a peer: %q, looked for: %q", w.hosted, w.sought)
	}
	token := ""
	for _, j := range w.jobs {
		if token == "" {
			token = j.Peer.Token
		}
		if j.Peer.Address != "192.0.2.1:2000" || j.Peer.Missing != "" || j.Peer.Token != token || len(token) != 64 {
			t.Fatalf("a job has %+v", j.Peer)
		}
	}
	for _, tr := range m.trials {
		if tr.Error != nil {
			t.Fatalf("a trial failed: %+v", tr.Error)
		}
	}
}

func TestAnOtherEndThatDoesNotStartIsSaid(t *testing.T) {
	w := &peerWorld{world: newWorld(0.005, map[string]float64{"host": 1, "box": 1, "vm": 2})}
	w.noOtherEnd = errors.New("no executable")
	m := toBox(t, w)
	if len(m.trials) == 0 || m.trials[0].Error == nil ||
		!strings.Contains(m.trials[0].Error.Message, "start the other end in box: no executable") {
		t.Errorf("trials %+v", m.trials)
	}
}

// An environment on this machine's loopback is reached by it, whatever else it has.
func TestPlacesOfAPeerOnTheLoopback(t *testing.T) {
	addresses := []string{"127.0.0.1:1000", "192.0.2.1:2000"}
	box := &target{Target: Target{Loopback: "127.0.0.1"}}
	vm := &target{Target: Target{Loopback: "10.0.2.2"}}
	far := &target{}
	behind := &target{Target: Target{Forward: func(_ context.Context, port uint16) (uint16, error) {
		if port != 2000 {
			return 0, errors.New("nothing listens there")
		}
		return 3000, nil
	}}}
	for _, c := range []struct {
		in, from *target
		want     string
	}{
		{box, vm, "10.0.2.2:1000 127.0.0.1:1000 192.0.2.1:2000"},
		{box, box, "127.0.0.1:1000 192.0.2.1:2000"},
		{box, far, "127.0.0.1:1000 192.0.2.1:2000"},
		{far, vm, "127.0.0.1:1000 192.0.2.1:2000"},
		{vm, box, "127.0.0.1:1000 192.0.2.1:2000"},
		{behind, box, "127.0.0.1:3000"},
		{behind, vm, "10.0.2.2:3000"},
		{behind, far, "127.0.0.1:1000 192.0.2.1:2000"},
		{behind, behind, "127.0.0.1:1000 192.0.2.1:2000"},
	} {
		got, err := placesFor(t.Context(), addresses, c.in, c.from)
		if got := strings.Join(got, " "); err != nil || got != c.want {
			t.Errorf("%q, %v, want %q", got, err, c.want)
		}
	}
	for _, only := range []string{"127.0.0.1:1000", "192.0.2.1:9"} {
		if got, err := placesFor(t.Context(), []string{only}, behind, box); err == nil {
			t.Errorf("from %s to %q", only, got)
		}
	}
}
