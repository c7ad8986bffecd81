package sql

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/replay"
	"tare/internal/measure/workload/trialtest"
	"tare/internal/unit"
)

func TestLanes(t *testing.T) {
	cpus := runtime.GOMAXPROCS(0)
	p := resolved(t, []workload.Param{lanesParam("connections")}, nil)
	for text, want := range map[string]int{p["lanes"]: 2 * cpus, "1": 1, "16": 16, "3x": 3 * cpus,
		"1024x": replay.MaxLanes,
		"":      0, "x": 0, "0": 0, "-1": 0, "1025": 0, "2.5x": 0} {
		n, err := replay.Lanes(text)
		if n != min(want, replay.MaxLanes) || (err == nil) != (want > 0) {
			t.Errorf("lanes=%s gives %d, %v", text, n, err)
		}
	}
}

// TestTargetRefuses checks that parameters that do not fit together are named.
func TestTargetRefuses(t *testing.T) {
	for _, c := range []struct {
		want  string
		given map[string]string
	}{
		{"user", map[string]string{"user": "u"}},
		{"password-file", map[string]string{"password-file": "/x"}},
		{"tls=require", map[string]string{"tls": "require"}},
		{"disposable", map[string]string{"disposable": "yes"}},
		{"settings", map[string]string{"settings": "a=1;b"}},
		{"root", map[string]string{"root": "/x"}},
		{"address", map[string]string{"address": "localhost"}},
		{"address", map[string]string{"address": "db.example:3306"}},
		{"user", map[string]string{"address": "127.0.0.1:1"}},
		{"settings", map[string]string{"address": "127.0.0.1:1", "user": "u", "settings": "a=1"}},
		{"tls=verify", map[string]string{"address": "/run/socket", "user": "u", "tls": "verify"}},
		{"tls-ca", map[string]string{"address": "127.0.0.1:1", "user": "u", "tls": "require", "tls-ca": "/x"}},
	} {
		p := resolved(t, serverParams(), c.given)
		if _, err := newTarget(p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v gives %v", c.given, err)
		}
		if p["address"] == "" && service(p, content{}) != nil {
			t.Errorf("%v has a service", c.given)
		}
	}
}

// TestServersAreShared checks which workloads use one server: never one that writes and one that only reads.
func TestServersAreShared(t *testing.T) {
	key := func(kind string, given map[string]string) string {
		t.Helper()
		k := trialtest.Named(t, Kinds(), kind)
		p, err := k.Resolve(given)
		if err != nil {
			t.Fatal(err)
		}
		return k.ServiceKey(p)
	}
	reads := key("sql.oltp", map[string]string{"mix": "point"})
	writes := key("sql.oltp", map[string]string{"mix": "write-only"})
	if reads == writes || reads != key("sql.oltp", map[string]string{"mix": "read-only", "lanes": "3"}) ||
		writes != key("sql.oltp", map[string]string{"mix": "read-write"}) {
		t.Errorf("sql.oltp: %q reads, %q writes", reads, writes)
	}
	reads = key("sql.replay", map[string]string{"log": "shop"})
	writes = key("sql.replay", map[string]string{"log": "shop", "writes": "yes"})
	open := key("sql.replay", map[string]string{"log": "shop", "from": "a+b"})
	if reads == writes || reads != key("sql.replay", map[string]string{"log": "shop", "lanes": "3"}) || reads == open ||
		open != key("sql.replay", map[string]string{"log": "shop", "from": "c"}) {
		t.Errorf("sql.replay: %q reads, %q writes, %q is open", reads, writes, open)
	}
}

func TestFind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte("geheim \r\nmore\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := resolved(t, serverParams(), map[string]string{"address": "127.0.0.1:3306", "user": "u", "tls": "require"})
	to, err := newTarget(p)
	if err != nil {
		t.Fatal(err)
	}
	b := &workload.Bench{Files: map[string]string{"password-file": path}}
	if err := to.find(b); err != nil {
		t.Fatal(err)
	}
	if to.Password != "geheim " || to.Network != "tcp" || to.untold || to.secure == nil || to.private {
		t.Errorf("%+v", to)
	}
}

// resolved completes parameters of a kind.
func resolved(t *testing.T, params []workload.Param, given map[string]string) workload.Params {
	t.Helper()
	k := workload.Kind{Name: "sql", Params: params}
	p, err := k.Resolve(given)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestReplayIsPaced checks that the figures that are promised are those that a replay at this pace has.
func TestReplayIsPaced(t *testing.T) {
	k := trialtest.Named(t, Kinds(), "sql.replay")
	for _, c := range []struct {
		paced bool
		given map[string]string
	}{
		{false, map[string]string{}}, {true, map[string]string{"pace": "2"}}, {true, map[string]string{"think": "1"}},
		{false, map[string]string{"think": "flat"}}, {true, map[string]string{"connect": "original"}},
		{false, map[string]string{"pace": "original", "think": "flat", "connect": "flat"}},
	} {
		c.given["log"] = "shop"
		p := resolved(t, k.Params, c.given)
		o, err := newOptions(p)
		if err != nil || o.Paced() != c.paced {
			t.Errorf("%v: %+v, %v", c.given, o, err)
		}
		behind := slices.ContainsFunc(k.MetricsFor(p), func(m unit.Metric) bool { return m.Name == "behind_p99" })
		if behind != c.paced || (k.Primary(p).Name == "latency_mean") != c.paced {
			t.Errorf("%v: the figures are %v", c.given, k.MetricsFor(p))
		}
	}
}

// TestReplayRefuses checks that parameters that have no effect, or cannot have it, are named.
func TestReplayRefuses(t *testing.T) {
	k := trialtest.Named(t, Kinds(), "sql.replay")
	at := func(more ...string) map[string]string {
		given := map[string]string{"log": "shop"}
		for i := 0; i < len(more); i += 2 {
			given[more[i]] = more[i+1]
		}
		return given
	}
	for _, c := range []struct {
		want  string
		given map[string]string
	}{
		{"writes", at("address", "/run/socket", "user", "u", "writes", "yes")},
		{"locks", at("server", "postgresql", "locks", "yes")},
		{"pin-time", at("server", "postgresql", "pin-time", "yes")},
		{"prepared=text", at("server", "postgresql", "prepared", "text")},
		{"idle-wait", at("idle-wait", "1s")},
		{"from", at("order", "transactions", "from", "a+b")},
		{"", at("locks", "yes")},
		{"", at("from", "a+b")},
		{"", at("server", "postgresql", "locks", "yes", "writes", "yes")},
	} {
		_, err := k.New(resolved(t, k.Params, c.given))
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want+":") {
			t.Errorf("%v gives %v", c.given, err)
		}
	}
}
