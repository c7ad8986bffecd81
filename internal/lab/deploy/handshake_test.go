package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/env"
	"tare/internal/measure/wire"
	"tare/internal/record"
	"tare/internal/version"
)

func shell(t *testing.T, script string) env.Stream {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return launch(t, "sh", "-c", script, self, t.TempDir())
}

func TestNoiseBeforeTheHandshakeIsHarmless(t *testing.T) {
	stream := shell(t, `printf 'Welcome!\n\211TAR'; echo warning >&2; exec "$0" agent --dir "$1"`)
	s, err := deploy.Connect(within(t, patience), stream, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	run(t, s, wire.Run{Job: job("t.idle"), Work: 1})
}

func TestHandshakesThatFail(t *testing.T) {
	hello := fmt.Sprintf(`{"protocol":%d,"build":%q}`, wire.Protocol, version.Build)
	for name, c := range map[string]struct {
		script   string
		message  string
		evidence string
	}{
		"another build":        {`TARE_TEST_BUILD=other exec "$0" agent --dir "$1"`, `build "other"`, ""},
		"garbage for ever":     {`exec yes 'command not found'`, "no output of an agent", "command not found"},
		"ends at once":         {`echo no such container >&2; exit 125`, "no such container", "exit status 125"},
		"ends after its noise": {`echo banner; exit 0`, "no output of an agent", "banner"},
		"silent":               {`echo still booting; exec sleep 600`, "deadline", "still booting"},
		"torn frame": {`printf '\211TARE\r\n\032\0\0\0\100\001\0\0\0\0\0{'`,
			"first message: read payload of hello frame: unexpected EOF", ""},
		"torn header":         {`printf '\211TARE\r\n\032\0\0'`, "unexpected EOF", ""},
		"garbage after magic": {`printf '\211TARE\r\n\032'; exec yes garbage`, "is above the limit", ""},
		"another frame first": {`printf '\211TARE\r\n\032\0\0\0\0\011\0\0\0\0\0'; sleep 60`,
			"first message is a begin frame", ""},
		"no JSON": {`printf '\211TARE\r\n\032\0\0\0\001\001\0\0\0\0\0{'; sleep 60`, "decode hello frame",
			""},
		"a terminal between": {`printf '\211TARE\r\r\n\032'`, "changes bytes", "TARE"},
		"protocol of tomorrow": {`printf '\211TARE\r\n\032\0\0\0\` + fmt.Sprintf("%03o", len(hello)) +
			`\001\0\0\0\0\0%s' '` +
			strings.Replace(hello, ":1", ":2", 1) + `'; sleep 60`, "protocol 2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := patience
			if name == "silent" {
				limit = 5 * time.Second // time for the shell to print the evidence
			}
			stream := shell(t, c.script)
			_, err := deploy.Connect(within(t, limit), stream, "test")
			h, ok := errors.AsType[*deploy.HandshakeError](err)
			if !ok {
				t.Fatalf("got %v, want a HandshakeError", err)
			}
			if !strings.Contains(err.Error(), c.message) {
				t.Errorf("the message lacks %q: %v", c.message, err)
			}
			if !strings.Contains(string(h.Evidence()), c.evidence) {
				t.Errorf("the evidence lacks %q: %.500q", c.evidence, h.Evidence())
			}
			if n := len(h.Evidence()); n > 2*wire.MaxNoise {
				t.Errorf("%d bytes of evidence", n)
			}
			if _, err := stream.Write([]byte("x")); err == nil {
				t.Error("the stream was left open")
			}
		})
	}
}

func TestOtherBuildIsRefusedByTheAgentToo(t *testing.T) {
	stream := start(t, t.TempDir())
	r, w := wire.NewReader(stream), wire.NewWriter(stream)
	if _, err := r.SkipNoise(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(); err != nil {
		t.Fatal(err)
	}
	if err := w.JSON(wire.TypeWelcome, 0, wire.Welcome{Protocol: wire.Protocol, Build: "other"}); err != nil {
		t.Fatal(err)
	}
	f, err := r.Read()
	var why record.Failure
	if err != nil || f.Type != wire.TypeFailure || f.Decode(&why) != nil || !strings.Contains(why.Message, `"other"`) {
		t.Errorf("got %s %s, %v", f.Type, f.Payload, err)
	}
	select {
	case <-stream.Done():
	case <-time.After(patience):
		t.Error("the agent serves a controller of another build")
	}
}

func TestHandshakeGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stream := shell(t, "exec sleep 600")
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := deploy.Connect(ctx, stream, "test"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// witness is an environment with evidence.
type witness string

func (w witness) Diagnose() []byte { return []byte(w) }

func TestWitnessesAreHeard(t *testing.T) {
	_, err := deploy.Connect(within(t, patience), shell(t, "exit 3"), "test", witness("Kernel panic - not syncing"))
	if err == nil || !strings.Contains(err.Error(), "Kernel panic") {
		t.Errorf("got %v", err)
	}
}

func TestPingReadsBothClocks(t *testing.T) {
	s, _ := connect(t, t.TempDir())
	first, err := s.Ping(t.Context(), 5)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	second, err := s.Ping(t.Context(), 5)
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Pairs) != 5 || first.Min <= 0 || first.Min > first.Median || first.Median > first.Max {
		t.Errorf("round trips %+v", first)
	}
	a, b := first.Pairs[4], second.Pairs[0]
	here, there := b.ControllerNS-a.ControllerNS, b.AgentNS-a.AgentNS
	// These are two clocks of one machine. They may differ by the error of the readings, and not by more.
	if d, most := here-there, (a.RTTNS+b.RTTNS)/2+1; here < 200e6 || d < -most || d > most {
		t.Errorf("between two pings %d ns passed here and %d there, round trips %d and %d", here, there, a.RTTNS,
			b.RTTNS)
	}
}

func TestCalibrationFindsWorkThatTakesLongEnough(t *testing.T) {
	s, _ := connect(t, t.TempDir())
	const target = 40 * time.Millisecond
	// On a machine that stalls, little work looks like enough, but not each time.
	often := func(what string, ok func() (any, bool)) {
		t.Helper()
		var got any
		for range 10 {
			var fine bool
			if got, fine = ok(); fine {
				return
			}
		}
		t.Errorf("%s: ten times no, at last %+v", what, got)
	}
	often("work that takes long enough", func() (any, bool) {
		c, err := s.Calibrate(within(t, patience), wire.Calibrate{Job: job("t.spin"), TargetNS: int64(target)})
		if err != nil || c.ElapsedNS < int64(target) {
			t.Fatalf("%+v, %v", c, err)
		}
		t.Logf("%d units in %v", c.Work, time.Duration(c.ElapsedNS))
		return c, c.Work >= 100
	})
	slow, err := s.Calibrate(within(t, patience),
		wire.Calibrate{Job: job("t.sleep"), TargetNS: int64(time.Millisecond) / 2})
	if err != nil || slow.Work != 1 || slow.ElapsedNS < 1e6 {
		t.Errorf("one unit longer than the target: %+v, %v", slow, err)
	}
	often("a kind bounded to 7 units", func() (any, bool) {
		bounded, err := s.Calibrate(within(t, patience), wire.Calibrate{Job: job("t.bounded"), TargetNS: int64(target)})
		if err != nil || bounded.Work > 7 {
			t.Fatalf("%+v, %v", bounded, err)
		}
		return bounded, bounded.Work == 7
	})
	often("a kind whose time does not grow", func() (any, bool) {
		_, err := s.Calibrate(within(t, patience), wire.Calibrate{Job: job("t.idle"), TargetNS: int64(target)})
		f, ok := errors.AsType[*record.Failure](err)
		return err, ok && f.Kind == "calibrate"
	})
	_, err = s.Calibrate(within(t, patience), wire.Calibrate{Job: job("t.exit"), TargetNS: int64(target)})
	if f, ok := errors.AsType[*record.Failure](err); !ok || f.Kind != "worker-died" {
		t.Errorf("a worker that dies: %v", err)
	}
}
