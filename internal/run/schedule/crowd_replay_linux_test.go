package schedule

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/internal/measure/dbserver"
	"tare/internal/measure/workload/all"
	"tare/internal/measure/workload/replay"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/run/supply"
	"tare/internal/sys/histogram"
	"tare/internal/sys/sql/mysql"
)

// needServer skips a test where a database server is not installed.
func needServer(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// The log of these tests: sessions that overlap, with a statement of its own at each place.
const (
	logSessions   = 12
	logStatements = 16 // of each, on average
	logTotal      = logSessions * logStatements
	logTimes      = 40 // in a trial that does not keep the log's times, which is short otherwise
)

// generalLog writes a general log of MariaDB whose statements are SELECT 1000, SELECT 1001 and so on, over two seconds.
func generalLog(t *testing.T) string {
	t.Helper()
	var log strings.Builder
	begun := map[int]bool{}
	number := 1000
	for second := range 2 {
		for i := range logTotal / 2 {
			session := i * i % logSessions // some sessions are longer than others
			if i < logSessions {
				session = i
			}
			stamp := "\t"
			if i == 0 {
				stamp = fmt.Sprintf("261121  0:05:3%d", 1+second)
			}
			if !begun[session] {
				begun[session] = true
				fmt.Fprintf(&log, "%s\t%5d Connect\tu@localhost on mysql using Socket\n", stamp, 10+session)
				stamp = "\t"
			}
			fmt.Fprintf(&log, "%s\t%5d Query\tSELECT %d\n", stamp, 10+session, number)
			number++
		}
	}
	name := filepath.Join(t.TempDir(), "general.log")
	if err := os.WriteFile(name, []byte(log.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// replayPlan is a replay in the first machine, or from the others if from says so, of an amount of work that is fixed.
func replayPlan(t *testing.T, given map[string]string, names ...string) *plan.Plan {
	t.Helper()
	k, _ := all.Lookup("sql.replay")
	p, err := k.Resolve(given)
	if err == nil {
		_, err = k.New(p)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := simPlan(names...)
	work := int64(logTimes)
	if p["pace"] != replay.PaceFlat {
		work = 1
	}
	out.Looks = []int{3}
	out.Workloads = []plan.Workload{{Label: "load", Kind: "sql.replay", Params: p, Targets: names[:1],
		Work: map[string]int64{names[0]: work}}}
	return out
}

func (m *machines) replay(t *testing.T, p *plan.Plan, events func(Event)) []record.Trial {
	t.Helper()
	files := supply.New(t.TempDir())
	defer files.Close()
	return m.runWith(t, Config{Plan: p, Events: events, Files: files})
}

// TestRealReplayFromTwoMachines replays a log from two networks on the MariaDB that tare starts in a third, and from
// that one alone. Both have the same evidence of equal work, and the server has counted each statement once.
func TestRealReplayFromTwoMachines(t *testing.T) {
	needServer(t, "mariadbd")
	names := []string{"base", "c1", "c2"}
	m := newMachines(t, names...)
	given := map[string]string{"log": generalLog(t), "whole": "yes", "lanes": "2",
		"settings": "innodb_buffer_pool_size=32M;innodb_flush_log_at_trx_commit=0"}
	alone := thatCount(t, m.replay(t, replayPlan(t, maps.Clone(given), names[:1]...), nil))
	given["from"] = "c1+c2"
	var good []record.Trial
	for try := 0; len(good) == 0 && try < 4; try++ { // a share may begin too late on a busy machine
		good = thatCount(t, m.replay(t, replayPlan(t, maps.Clone(given), names...), nil))
	}
	if len(good) == 0 || len(alone) == 0 {
		t.Fatalf("%d trials alone and %d together count", len(alone), len(good))
	}
	want := alone[0]
	const all = logTotal * logTimes
	for _, tr := range good {
		l := tr.Load
		if l == nil || len(l.Hosts) != 2 {
			t.Fatalf("the record says %+v", l)
		}
		h, err := histogram.Parse(l.Histograms["latency_"])
		a, b := l.Hosts[0].Work, l.Hosts[1].Work
		if err != nil || a+b != all || a < b/2 || b < a/2 || h.Count() != all ||
			tr.State["statements"] != strconv.Itoa(all) || !about(tr.State["Com_select"], all) {
			t.Errorf("%d and %d statements, %d in the histogram (%v), the server says %s", a, b, h.Count(), err,
				tr.State["Com_select"])
		}
		if p99 := float64(h.Quantile(0.99)); tr.Metrics["latency_p99"] != p99 || tr.Metrics["connect_p50"] <= 0 ||
			!(tr.Metrics["server_cpu_us_per_statement"] > 0) || tr.State["client_cpu_share"] == "" ||
			tr.State["errors"] != "none" || tr.State["lanes"] != "4" ||
			math.Abs(tr.Metrics["seconds"]*1e9*logTimes-float64(tr.AgentNS)) > logTimes ||
			math.Abs(tr.Metrics["statements_per_second"]*tr.Metrics["seconds"]-logTotal) > 1e-6 {
			t.Errorf("%v %v, want %v", tr.Metrics, tr.State, p99)
		}
		if l.Hosts[0].CPUShare < 0 || l.Hosts[0].Metrics["latency_mean"] <= 0 {
			t.Errorf("%+v", l.Hosts[0])
		}
		// Every statement has its number in these sums, so that one that was sent twice in the place of another shows.
		if len(tr.Groups) != 1 || tr.Groups[0].Check == "" || tr.Groups[0].Check != want.Groups[0].Check ||
			tr.Groups[0].Count != all || tr.State["sum"] != want.State["sum"] ||
			!slices.Equal(tr.Sketch, want.Sketch) || tr.Checks["trace"] != want.Checks["trace"] {
			t.Errorf("together %+v %v\nalone %+v %v", tr.Groups, tr.State, want.Groups, want.State)
		}
		if g := tr.Groups[0]; g.P99 != tr.Metrics["latency_p99"]/1e9 || g.P50 <= 0 {
			t.Errorf("of one fingerprint %+v", g)
		}
	}
}

// about tells whether a server has counted so many statements. It adds a session's up a little after the session's end.
func about(counter string, want int) bool {
	n, err := strconv.Atoi(counter)
	return err == nil && n > want-want/100 && n < want+want/100
}

// userServer starts a MariaDB of the user's in a machine, which logs all statements to a file, and makes a user for it.
func (m *machines) userServer(t *testing.T, name string) (log string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // the server's account is another one
		t.Fatal(err)
	}
	var s dbserver.Server
	err := m.spaces[name].Do(func() (err error) {
		s, err = dbserver.Start(t.Context(), dbserver.Options{Product: dbserver.MariaDB,
			Dir:  filepath.Join(dir, "base"),
			Port: 3306, Settings: []string{"bind-address=0.0.0.0", "general_log=ON",
				"general_log_file=all.log", "innodb_buffer_pool_size=32M"}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	e := s.Endpoint()
	c, err := mysql.Dial(t.Context(), mysql.Config{Network: e.Network, Address: e.Address, User: e.User})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Quit()
	for _, text := range []string{"CREATE USER load_user IDENTIFIED BY 'secret'", "GRANT SELECT ON *.* TO load_user"} {
		if err := c.Query([]byte(text), &mysql.Result{}); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "base", "data", "all.log")
}

// TestRealReplayOnTheUsersServer replays a log at its pace on a server that was there before. By that server's own log,
// each statement was sent once in each trial. Then a host dies in mid-replay: no session is left on the server.
func TestRealReplayOnTheUsersServer(t *testing.T) {
	needServer(t, "mariadbd")
	names := []string{"base", "c1", "c2"}
	m := newMachines(t, names...)
	log := m.userServer(t, "base")
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	given := map[string]string{"log": generalLog(t), "whole": "yes", "lanes": "session", "warm": "no", "pace": "4",
		"address": "192.0.2.1:3306", "user": "load_user", "password-file": password, "from": "c1*2+c2"}
	trials := m.replay(t, replayPlan(t, maps.Clone(given), names...), nil)
	all := 0
	for _, tr := range trials {
		if tr.Target != "" {
			all++
		}
	}
	seen := map[string]int{}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`\tSELECT (\d+)\n`).FindAllStringSubmatch(string(text), -1) {
		seen[found[1]]++
	}
	for number := 1000; number < 1000+logTotal; number++ {
		if n := seen[strconv.Itoa(number)]; n != all {
			t.Errorf("the server's log has SELECT %d %d times in %d trials", number, n, all)
		}
	}
	for _, tr := range thatCount(t, trials) {
		l := tr.Load
		if len(l.Hosts) != 2 || l.Hosts[0].Work+l.Hosts[1].Work != logTotal ||
			l.Hosts[0].Work < 3*l.Hosts[1].Work/2 || !(tr.Metrics["behind_p99"] > 0) ||
			!(l.Hosts[0].Metrics["behind_p99"] > 0) || !strings.Contains(tr.State["behind_because"], " in c") {
			t.Errorf("%v %v %+v", tr.Metrics, tr.State, l)
		}
	}

	given["pace"] = "0.25" // four seconds
	p := replayPlan(t, given, names...)
	var once sync.Once
	trials = m.replay(t, p, func(e Event) {
		if e.Kind == TrialBegin {
			once.Do(func() { m.kill("c2", 1500*time.Millisecond) })
		}
	})
	f := trials[len(trials)-1].Error
	if f == nil || f.Kind != kindLoadHostDied || !strings.HasPrefix(f.Message, "c2, one of the 2 hosts that offer") {
		t.Errorf("the trial says %+v", f)
	}
	if text, err = os.ReadFile(log); err != nil {
		t.Fatal(err)
	}
	begun := regexp.MustCompile(`\d+ Connect\t`).FindAll(text, -1)
	ended := regexp.MustCompile(`\d+ Quit\t`).FindAll(text, -1)
	t.Logf("%d sessions began, %d ended in order", len(begun), len(ended))
	m.noSessions(t)
}

// noSessions holds that nobody but this question is connected to the user's server, at most a little later.
func (m *machines) noSessions(t *testing.T) {
	t.Helper()
	err := m.spaces["base"].Do(func() error {
		c, err := mysql.Dial(t.Context(), mysql.Config{Network: "tcp", Address: "127.0.0.1:3306", User: "load_user",
			Password: "secret"})
		if err != nil {
			return err
		}
		defer c.Quit()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			n := 0
			err := c.Query([]byte("SHOW PROCESSLIST"), &mysql.Result{Row: func(v [][]byte) error {
				if len(v) > 1 && string(v[1]) == "load_user" {
					n++
				}
				return nil
			}})
			if err != nil || n == 1 {
				return err
			}
			if time.Now().After(end) {
				return fmt.Errorf("%d sessions are left", n-1)
			}
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// TestRealReplayFromTooMany has more hosts than sessions, and one that does not reach the server.
func TestRealReplayFromTooMany(t *testing.T) {
	needServer(t, "mariadbd")
	names := []string{"base", "c1", "c2"}
	m := newMachines(t, names...)
	one := filepath.Join(t.TempDir(), "one.log")
	if err := os.WriteFile(one, []byte("261121  0:05:31\t    8 Query\tSELECT 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	says := func(want string, given map[string]string) {
		t.Helper()
		given["from"] = "c1+c2"
		trials := m.replay(t, replayPlan(t, given, names...), nil)
		f := trials[len(trials)-1].Error
		if f == nil || !strings.Contains(f.Message, want) {
			t.Errorf("want %q: %+v", want, f)
		}
	}
	says("c2, one of the 2 hosts that offered the load: sql.replay: 1 session cannot be divided among 2 hosts",
		map[string]string{"log": one, "whole": "yes"})
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	says("one of the 2 hosts that offered the load: sql.replay: ", map[string]string{"log": generalLog(t),
		"whole": "yes", "address": "192.0.2.1:3307", "user": "load_user", "password-file": password})
}

// TestRealWebReplayFromTwoMachines replays an access log from two networks on a server in a third, which counts
// requests.
func TestRealWebReplayFromTwoMachines(t *testing.T) {
	names := []string{"web", "c1", "c2"}
	m := newMachines(t, names...)
	var listener net.Listener
	err := m.spaces["web"].Do(func() (err error) {
		listener, err = net.Listen("tcp", "192.0.2.1:8080")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[string]int{}
	site := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.URL.Path]++
		mu.Unlock()
		fmt.Fprintf(w, "this is page %s\n", r.URL.Path)
	})}
	go site.Serve(listener)
	defer site.Close()
	var log strings.Builder
	const clients, pages = 9, 20
	for i := range clients * pages {
		fmt.Fprintf(&log, "10.0.0.%d - - [21/Nov/2026:00:05:%02d +0000] \"GET /page/%d HTTP/1.1\" 200 20 \"-\" "+
			"\"a browser\"\n", i%clients, 10+i/30, i)
	}
	name := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(name, []byte(log.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	k, _ := all.Lookup("http.replay")
	params, err := k.Resolve(map[string]string{"url": "http://192.0.2.1:8080", "log": name, "whole": "yes",
		"lanes": "2", "warm": "no", "from": "c1+c2"})
	if err != nil {
		t.Fatal(err)
	}
	p := simPlan(names...)
	p.Looks = []int{3}
	p.Workloads = []plan.Workload{{Label: "load", Kind: "http.replay", Params: params, Targets: names[:1],
		Work: map[string]int64{"web": logTimes}}}
	trials, did := m.replay(t, p, nil), 0
	for _, tr := range trials {
		if tr.Target == "" {
			continue
		}
		if did++; tr.Error != nil {
			continue // thatCount says what may be
		}
		const all = clients * pages * logTimes
		if tr.State["requests"] != strconv.Itoa(all) || tr.State["errors"] != "none" || tr.Load == nil ||
			tr.Load.Hosts[0].Work+tr.Load.Hosts[1].Work != all || len(tr.Sketch) == 0 {
			t.Errorf("%v %+v", tr.State, tr.Load)
		}
	}
	thatCount(t, trials)
	for i := range clients * pages {
		if n := seen[fmt.Sprintf("/page/%d", i)]; n != did*logTimes {
			t.Errorf("page %d was asked for %d times in %d trials", i, n, did)
		}
	}
}
