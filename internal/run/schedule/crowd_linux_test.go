package schedule

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/measure/workload/all"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/run/crowd"
	"tare/internal/sys/histogram"
	"tare/internal/sys/netns"
	"tare/internal/sys/proc"
)

func TestMain(m *testing.M) { os.Exit(agenttest.Main(m)) }

// machines are network namespaces that are joined by a bridge, each with a real agent once it is opened.
type machines struct {
	t       *testing.T
	program string
	spaces  map[string]*netns.Space

	mu      sync.Mutex
	streams map[string]*proc.Stream
}

// newMachines makes a network of machines; the first has the bridge, and 192.0.2.1.
func newMachines(t *testing.T, names ...string) *machines {
	t.Helper()
	_, err := exec.LookPath("nginx")
	if os.Geteuid() != 0 || err != nil {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatalf("this test needs root and nginx: %v", err)
		}
		t.Skip("needs root, for network namespaces, and nginx")
	}
	m := &machines{t: t, program: agenttest.Build(t, runtime.GOOS, runtime.GOARCH), spaces: map[string]*netns.Space{},
		streams: map[string]*proc.Stream{}}
	do := func(s *netns.Space, steps ...func() error) {
		for _, step := range steps {
			if err := s.Do(step); err != nil {
				t.Fatal(err)
			}
		}
	}
	lo := func() error { return netns.Up("lo", "") }
	for i, name := range names {
		s, err := netns.New(0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		m.spaces[name] = s
		if do(s, lo); i == 0 {
			do(s, func() error { return netns.Bridge("br0") }, func() error { return netns.Up("br0", "192.0.2.1") })
			continue
		}
		port := "port" + strconv.Itoa(i)
		do(m.spaces[names[0]], func() error { return netns.Veth(port, "eth0", s) },
			func() error { return netns.Join("br0", port) }, func() error { return netns.Up(port, "") })
		do(s, func() error { return netns.Up("eth0", "192.0.2."+strconv.Itoa(i+1)) })
	}
	return m
}

func (m *machines) Open(ctx context.Context, e *plan.Target, _ []*plan.Target, session int) (Target, error) {
	t := Target{Record: record.Environment{Target: record.Target{Name: e.Name, Spec: e.Text}, Session: session,
		OpenNS: 1}}
	var stream *proc.Stream
	err := m.spaces[e.Name].Do(func() (err error) {
		stream, err = proc.Start(proc.Command(context.Background(), m.program, "agent", "--dir", m.t.TempDir()))
		return err
	})
	if err != nil {
		return t, err
	}
	m.mu.Lock()
	m.streams[e.Name] = stream
	m.mu.Unlock()
	conn, err := deploy.Connect(ctx, stream, "test")
	if err != nil {
		stream.Close()
		return t, err
	}
	t.Agent, t.Unreached = conn, nil
	t.Close = func() error {
		conn.Close()
		return stream.Close()
	}
	return t, nil
}

// crowdPlan is one workload on the first machine, with the load from the others.
func (m *machines) crowdPlan(t *testing.T, kind string, given map[string]string, names ...string) *plan.Plan {
	t.Helper()
	k, _ := all.Lookup(kind)
	given["from"] = strings.Join(names[1:], "+")
	p, err := k.Resolve(given)
	if err != nil {
		t.Fatal(err)
	}
	out := simPlan(names...)
	out.Trial, out.Looks = 600*time.Millisecond, []int{1}
	out.Workloads = []plan.Workload{{Label: "load", Kind: kind, Params: p, Targets: names[:1]}}
	return out
}

func (m *machines) run(t *testing.T, p *plan.Plan, events func(Event)) []record.Trial {
	t.Helper()
	return m.runWith(t, Config{Plan: p, Events: events})
}

// runWith completes a configuration and carries its plan out.
func (m *machines) runWith(t *testing.T, c Config) []record.Trial {
	t.Helper()
	sink := &memorySink{files: map[string]string{}}
	c.Opener, c.Sink, c.Evidence, c.Kinds, c.Header = m, sink, sink, all.Lookup, verdict.Run{ID: "test"}
	_, trials, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return trials
}

// kill has a machine's agent die in a while.
func (m *machines) kill(name string, after time.Duration) {
	time.AfterFunc(after, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if err := m.streams[name].Kill(); err != nil {
			m.t.Error(err)
		}
	})
}

// thatCount are the trials that count. A machine that is busy may begin a share too late, which is said.
func thatCount(t *testing.T, trials []record.Trial) (good []record.Trial) {
	t.Helper()
	for _, tr := range trials {
		switch {
		case tr.Target == "":
		case tr.Error == nil:
			good = append(good, tr)
		case tr.Error.Kind == crowd.Apart:
			t.Logf("block %d: %s", tr.Block, tr.Error.Message)
		default:
			t.Errorf("block %d: %s: %s %s", tr.Block, tr.Error.Kind, tr.Error.Message, tr.Error.Evidence)
		}
	}
	return good
}

// counted carries a plan out and returns the trials that count. On a busy machine a share may begin too late, which is
// said and nothing else; the plan is carried out again until a trial counts.
func (m *machines) counted(p *plan.Plan) (good []record.Trial) {
	m.t.Helper()
	for try := 0; try < 10 && len(good) == 0; try++ {
		good = thatCount(m.t, m.run(m.t, p, nil))
	}
	if len(good) == 0 {
		m.t.Fatal("no trial counts")
	}
	return good
}

// TestRealLoadFromThreeMachines loads a real nginx in one network from three others, at a rate that all of them offer
// together.
func TestRealLoadFromThreeMachines(t *testing.T) {
	names := []string{"web", "c1", "c2", "c3"}
	m := newMachines(t, names...)
	p := m.crowdPlan(t, "http.load", map[string]string{"rate": "240", "connections": "2"}, names...)
	p.Workloads[0].Params["from"] = "c1*2+c2+c3"
	for _, tr := range m.counted(p) {
		l := tr.Load
		if l == nil || len(l.Hosts) != 3 || l.Covered < crowd.LeastCovered || l.Covered > 1 {
			t.Fatalf("the record says %+v", l)
		}
		sum := int64(0)
		for i, h := range l.Hosts {
			sum += h.Work
			share := []float64{0.5, 0.25, 0.25}[i]
			if h.Name != names[i+1] || h.NS <= 0 || h.ClockNS <= 0 || h.Metrics["p50_us"] <= 0 || h.CPUShare < 0 ||
				float64(h.Work) < share*float64(tr.Work)-1 || float64(h.Work) > share*float64(tr.Work)+1 {
				t.Errorf("%+v", h)
			}
		}
		got, err := histogram.Parse(l.Histograms[""])
		if err != nil || sum != tr.Work || got.Count() != uint64(tr.Work) {
			t.Fatalf("%d requests of %d in %d of the histogram, %v", sum, tr.Work, got.Count(), err)
		}
		for name, q := range map[string]float64{"p50_us": 0.5, "p99_us": 0.99, "max_us": 1} {
			if want := float64(got.Quantile(q)) / 1e3; tr.Metrics[name] != want {
				t.Errorf("%s is %v, and that of all requests %v", name, tr.Metrics[name], want)
			}
		}
		if r := tr.Metrics["requests_per_second"]; r < 60 || r > 260 || !(tr.Metrics["server_cpu_us"] > 0) ||
			tr.State["client_cpu_share"] == "" || tr.State["server_cpu_share"] == "" || tr.Checks["page"] == "" ||
			!(tr.Metrics["schedule_mean_us"] > 0) {
			t.Errorf("%v %v %v", tr.Metrics, tr.State, tr.Checks)
		}
		if tr.AgentNS != tr.ControllerNS || tr.AgentNS < int64(300*time.Millisecond) {
			t.Errorf("it took %d and %d ns", tr.AgentNS, tr.ControllerNS)
		}
	}
}

// TestRealStreamsFromTwoMachines sends to the peer in one network from two others, as fast as they can.
func TestRealStreamsFromTwoMachines(t *testing.T) {
	names := []string{"web", "c1", "c2"}
	m := newMachines(t, names...)
	p := m.crowdPlan(t, "net.udp", map[string]string{"rate": "300"}, names...)
	for _, tr := range m.counted(p) {
		if tr.Load == nil || len(tr.Load.Hosts) != 2 || !(tr.Metrics["arrived"] > 0) || !(tr.Metrics["jitter"] > 0) {
			t.Errorf("%v %+v", tr.Metrics, tr.Load)
		}
	}
	p = m.crowdPlan(t, "net.rr", map[string]string{}, names...)
	p.Looks = []int{1}
	q := m.crowdPlan(t, "net.stream", map[string]string{}, names...)
	p.Workloads = append(p.Workloads, q.Workloads[0])
	p.Workloads[1].Label = "stream"
	for _, tr := range m.run(t, p, nil) {
		if tr.Target == "" || tr.Error != nil && tr.Error.Kind == crowd.Apart {
			continue // neither waits for the other
		}
		if tr.Error != nil || tr.Load == nil || tr.Workload == "stream" && !(tr.Metrics["throughput"] > 0) ||
			tr.Workload == "load" && !(tr.Metrics["latency_p99"] >= tr.Metrics["latency_p50"]) {
			t.Errorf("%v %+v %v", tr.Metrics, tr.Load, tr.Error)
		}
	}
}

// TestRealLoadHostDies kills one of the hosts in mid-trial: it is named, the trial does not count, nothing hangs and
// the others end in order.
func TestRealLoadHostDies(t *testing.T) {
	names := []string{"web", "c1", "c2"}
	m := newMachines(t, names...)
	p := m.crowdPlan(t, "http.load", map[string]string{"rate": "100"}, names...)
	p.Looks = []int{3}
	var once sync.Once
	var lost []string
	trials := m.run(t, p, func(e Event) {
		switch {
		case e.Kind == TrialBegin && e.Block == 1:
			once.Do(func() { m.kill("c2", 700*time.Millisecond) })
		case e.Kind == Dropped && e.Workload == "":
			lost = append(lost, e.Target)
		}
	})
	last := trials[len(trials)-1]
	for _, tr := range trials {
		if tr.Error != nil && tr.Error.Kind != crowd.Apart {
			last = tr
		}
	}
	if f := last.Error; f == nil || f.Kind != kindLoadHostDied ||
		!strings.HasPrefix(f.Message, "c2, one of the 2 hosts that offer") || last.Metrics != nil {
		t.Errorf("the trial says %+v", last.Error)
	}
	if len(lost) != 1 || lost[0] != "c2" {
		t.Errorf("lost are %v", lost)
	}
}
