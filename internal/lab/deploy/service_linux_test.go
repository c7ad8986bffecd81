package deploy_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tare/internal/lab/deploy"
	"tare/internal/measure/wire"
	"tare/internal/record"
)

func needPostgres(t *testing.T) {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err == nil && len(found) > 0 {
		return
	}
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatal("PostgreSQL is not installed, and TARE_REQUIRE is set")
	}
	t.Skip("PostgreSQL is not installed")
}

func servedBy(server string) wire.Run {
	return wire.Run{Work: 1, Job: wire.Job{Kind: "t.served", Cell: "cell", Service: server,
		Params: map[string]string{"server": server}}}
}

// alive is running for a process whose id a trial has reported.
func alive(pid string) bool {
	n, err := strconv.Atoi(pid)
	return err == nil && running(n)
}

func end(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
		t.Fatalf("kill %d: %v", n, err)
	}
	eventually(t, "process "+pid+" is gone", func() bool { return !alive(pid) })
}

// TestServiceLivesFromTrialToTrial: all trials and cells that name the same service use one server; another name gets
// another server. Both are gone after the session.
func TestServiceLivesFromTrialToTrial(t *testing.T) {
	needPostgres(t)
	dir := t.TempDir()
	s, _ := connect(t, dir)
	var pids []string
	for n := range 4 {
		r := servedBy("one")
		if n == 2 {
			r.Cell = "another cell"
		}
		is := run(t, s, r).Result.State
		pids = append(pids, is["server"])
		if is["rows"] != strconv.Itoa(n+1) || is["server"] != pids[0] || is["starts"] != "1" ||
			is["trials"] != strconv.Itoa(n) || is["version"] == "" {
			t.Errorf("trial %d: %v", n, is)
		}
	}
	other := run(t, s, servedBy("two")).Result.State
	if other["server"] == pids[0] || other["rows"] != "1" || !alive(pids[0]) {
		t.Errorf("another server: %v", other)
	}
	c, err := s.Calibrate(within(t, patience), wire.Calibrate{Job: servedBy("one").Job, TargetNS: 1})
	if err != nil || c.Work < 1 {
		t.Errorf("calibrate: %+v, %v", c, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, pid := range []string{pids[0], other["server"], other["service"]} {
		if alive(pid) {
			t.Errorf("process %s is still there", pid)
		}
	}
	if names := left(t, dir); len(names) > 0 {
		t.Errorf("left behind: %q", names)
	}
}

// TestServiceThatDies: whichever process of the service is killed, the next trial reports it, and the one after it has
// a new server.
func TestServiceThatDies(t *testing.T) {
	needPostgres(t)
	s, _ := connect(t, t.TempDir())
	starts := 1
	for _, c := range []struct{ who, evidence string }{{"service", "signal: killed"}, {"server", "signal: killed"}} {
		is := run(t, s, servedBy("one")).Result.State
		end(t, is[c.who])
		f := fails(t, s, servedBy("one"))
		if f.Kind != "service-died" || !strings.Contains(f.Message, " ended") ||
			!strings.Contains(f.Evidence, c.evidence) {
			t.Errorf("%s: %v\n%s", c.who, f, f.Evidence)
		}
		eventually(t, "the old server is gone", func() bool { return !alive(is["server"]) && !alive(is["service"]) })
		starts++
		now := run(t, s, servedBy("one")).Result.State
		if now["starts"] != strconv.Itoa(starts) || now["trials"] != "0" || now["server"] == is["server"] {
			t.Errorf("%s: afterwards %v", c.who, now)
		}
	}
}

// held starts a trial that waits for its server. It returns when the trial waits, with the report of the trial before.
func held(t *testing.T, s *deploy.Conn, dir string) (map[string]string, <-chan error) {
	t.Helper()
	is := run(t, s, servedBy("one")).Result.State
	r := servedBy("one")
	r.Params["hold"] = "yes"
	done := make(chan error, 1)
	ctx := within(t, patience)
	go func() {
		_, err := s.Run(ctx, r)
		done <- err
	}()
	eventually(t, "the trial waits for its server", func() bool {
		found, err := filepath.Glob(filepath.Join(dir, "*", "cell-*", "held"))
		return err == nil && len(found) == 1
	})
	return is, done
}

// TestServerKilledInATrial: the server's end is the trial's failure, with the server's own output.
func TestServerKilledInATrial(t *testing.T) {
	needPostgres(t)
	dir := t.TempDir()
	s, _ := connect(t, dir)
	is, done := held(t, s, dir)
	end(t, is["server"])
	f, ok := errors.AsType[*record.Failure](<-done)
	if !ok || f.Kind != "service-died" || !strings.Contains(f.Message, "PostgreSQL has ended; the trial failed with") ||
		!strings.Contains(f.Evidence, "signal: killed") {
		t.Errorf("%+v", f)
	}
	if now := run(t, s, servedBy("one")).Result.State; now["starts"] != "2" || now["rows"] != "1" {
		t.Errorf("afterwards %v", now)
	}
}

// TestWorkerKilledInATrial: the service is not affected.
func TestWorkerKilledInATrial(t *testing.T) {
	needPostgres(t)
	dir := t.TempDir()
	s, stream := connect(t, dir)
	is, done := held(t, s, dir)
	for _, pid := range children(stream.Pid()) {
		end(t, strconv.Itoa(pid))
	}
	if f, ok := errors.AsType[*record.Failure](<-done); !ok || f.Kind != "worker-died" {
		t.Errorf("%+v", f)
	}
	if now := run(t, s, servedBy("one")).Result.State; now["server"] != is["server"] || now["starts"] != "1" {
		t.Errorf("before %v, afterwards %v", is, now)
	}
}

// TestAgentKilledWithService: the service ends all processes that it has started, also during a trial.
func TestAgentKilledWithService(t *testing.T) {
	needPostgres(t)
	dir := t.TempDir()
	s, stream := connect(t, dir)
	is, done := held(t, s, dir)
	if _, err := os.Stat(is["socket"]); err != nil {
		t.Fatal(err)
	}
	end(t, strconv.Itoa(stream.Pid()))
	<-done
	eventually(t, "the service has ended what it had started", func() bool {
		_, err := os.Stat(is["socket"])
		return !alive(is["server"]) && !alive(is["service"]) && errors.Is(err, os.ErrNotExist)
	})
}

// TestServiceThatCannotStart: the failure contains the service's output, and the agent goes on. The same holds if the
// start is cancelled.
func TestServiceThatCannotStart(t *testing.T) {
	needPostgres(t)
	s, stream := connect(t, t.TempDir())
	if f := fails(t, s, servedBy("impossible")); f.Kind != "refused" || f.Message != "there is no such server" {
		t.Errorf("%+v", f)
	}
	wrong := servedBy("one")
	wrong.Service = "other"
	if f := fails(t, s, wrong); f.Kind != "refused" || !strings.Contains(f.Message, "no service") {
		t.Errorf("%+v", f)
	}
	wrong.Service = ""
	if f := fails(t, s, wrong); f.Kind != "refused" || !strings.Contains(f.Message, "no service") {
		t.Errorf("%+v", f)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for len(childrenAs(stream.Pid(), "service")) == 0 && ctx.Err() == nil { // it lasts until initdb has ended
		}
	}()
	_, err := s.Run(ctx, servedBy("one"))
	if f, ok := errors.AsType[*record.Failure](err); !ok || f.Kind != "cancelled" || !s.Alive() {
		t.Errorf("%v, alive %v", err, s.Alive())
	}
	if is := run(t, s, servedBy("one")).Result.State; is["rows"] != "1" {
		t.Errorf("afterwards %v", is)
	}
}
