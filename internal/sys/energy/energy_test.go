package energy

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// tree writes files below a directory, by their paths.
func tree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// server is the tree of a machine with two packages, one with memory and a core in it, a platform, and the same
// counters once more.
func server(t *testing.T) string {
	sys := t.TempDir()
	zone := func(entry, name, energy string) {
		dir := "class/powercap/" + entry + "/"
		tree(t, sys, map[string]string{dir + "name": name + "\n", dir + "energy_uj": energy + "\n",
			dir + "max_energy_range_uj": "262143328850\n"})
	}
	zone("intel-rapl:0", "package-0", "262143000000")
	zone("intel-rapl:0:0", "core", "5000000")
	zone("intel-rapl:0:1", "dram", "7000000")
	zone("intel-rapl:1", "package-1", "1000000")
	zone("intel-rapl:2", "psys", "9000000")
	zone("intel-rapl-mmio:0", "package-0", "262143000000")
	tree(t, sys, map[string]string{"class/powercap/intel-rapl/enabled": "1\n"})
	return sys
}

// opened opens a source that is there.
func opened(t *testing.T, name, sys string, command ...string) Source {
	t.Helper()
	s, err := Open(t.Context(), name, command, sys)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// later is a reading that was taken so much after another one.
func later(t *testing.T, s Source, before Reading, by time.Duration) Reading {
	t.Helper()
	r, err := s.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d := before.Began.Add(by).Sub(r.Began)
	r.Began, r.Ended = r.Began.Add(d), r.Ended.Add(d)
	return r
}

func first(t *testing.T, s Source) Reading {
	t.Helper()
	r, err := s.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*math.Max(1, want) {
		t.Errorf("%s is %v J, want %v", what, got, want)
	}
}

func TestRAPL(t *testing.T) {
	sys := server(t)
	s := opened(t, Auto, sys)
	if s.Name() != RAPL {
		t.Fatalf("auto chose %s", s.Name())
	}
	before := first(t, s)
	tree(t, sys, map[string]string{
		"class/powercap/intel-rapl:0/energy_uj":   "2000000\n", // it went round
		"class/powercap/intel-rapl:0:0/energy_uj": "6000000\n",
		"class/powercap/intel-rapl:0:1/energy_uj": "7500000\n",
		"class/powercap/intel-rapl:1/energy_uj":   "2250000\n",
		"class/powercap/intel-rapl:2/energy_uj":   "19000000\n",
	})
	used, err := Between(before, later(t, s, before, 300*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	near(t, "the sum", used.Joules, 2.32885+0.5+1.25)
	var parts []string
	for _, p := range used.Parts {
		parts = append(parts, fmt.Sprintf("%s %.3f", p.Name, p.Joules))
	}
	want := "package-0 2.329, package-0 core 1.000, package-0 dram 0.500, package-1 1.250, psys 10.000"
	if got := strings.Join(parts, ", "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, c := range []struct {
		by   time.Duration
		says string
	}{{20 * time.Millisecond, "too short"}, {time.Hour, "more than once"}} {
		if _, err := Between(before, later(t, s, before, c.by)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("after %v: %v, want %q", c.by, err, c.says)
		}
	}
	still := first(t, s)
	if _, err := Between(still, later(t, s, still, time.Second)); err == nil ||
		!strings.Contains(err.Error(), "moved by 0 J") {
		t.Errorf("of counters that do not move: %v", err)
	}
	// A zone that is gone, as when a processor is taken out of service.
	if err := os.Remove(filepath.Join(sys, "class/powercap/intel-rapl:1/energy_uj")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "package-1") {
		t.Errorf("of a zone that is gone: %v", err)
	}
}

// TestPlatformAlone: where only the platform is counted, that is the sum.
func TestPlatformAlone(t *testing.T) {
	sys := t.TempDir()
	dir := "class/powercap/intel-rapl:0/"
	tree(t, sys, map[string]string{dir + "name": "psys\n", dir + "energy_uj": "1000000\n",
		dir + "max_energy_range_uj": "262143328850\n"})
	s := opened(t, RAPL, sys)
	before := first(t, s)
	tree(t, sys, map[string]string{dir + "energy_uj": "4000000\n"})
	used, err := Between(before, later(t, s, before, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	near(t, "the platform", used.Joules, 3)
}

func TestNoSource(t *testing.T) {
	empty, unreadable, unbounded := t.TempDir(), server(t), server(t)
	tree(t, unbounded, map[string]string{"class/powercap/intel-rapl:0/max_energy_range_uj": "0\n"})
	cases := []struct{ name, sys, says string }{
		{RAPL, empty, "no counters of the processor's energy"},
		{Battery, empty, "no battery"},
		{Auto, empty, "no battery"},
		{RAPL, unbounded, "starts again at 0"},
		{"sun", empty, `no source of energy "sun"`},
	}
	if os.Getuid() != 0 && runtime.GOOS != "windows" {
		if err := os.Chmod(filepath.Join(unreadable, "class/powercap/intel-rapl:0/energy_uj"), 0); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, struct{ name, sys, says string }{RAPL, unreadable, "by root only"})
	}
	for _, c := range cases {
		if _, err := Open(t.Context(), c.name, nil, c.sys); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}

func TestBattery(t *testing.T) {
	sys := t.TempDir()
	supply := func(name string, files map[string]string) {
		for file, text := range files {
			tree(t, sys, map[string]string{"class/power_supply/" + name + "/" + file: text + "\n"})
		}
	}
	supply("AC", map[string]string{"type": "Mains", "online": "0"})
	supply("mouse", map[string]string{"type": "Battery", "scope": "Device", "status": "Discharging",
		"energy_now": "1000"})
	supply("BAT0", map[string]string{"type": "Battery", "status": "Not charging", "energy_now": "41230000"})
	supply("BAT1", map[string]string{"type": "Battery", "status": "Discharging", "charge_now": "3000000",
		"voltage_now": "12000000"})
	s := opened(t, Auto, sys)
	if s.Name() != Battery {
		t.Fatalf("auto chose %s", s.Name())
	}
	before := first(t, s)
	supply("BAT1", map[string]string{"charge_now": "2970000", "voltage_now": "11900000"})
	used, err := Between(before, later(t, s, before, time.Minute))
	if err == nil { // 30 mAh of a counter that may go in steps of 10
		t.Errorf("three of its steps are said to be %v J", used.Joules)
	} else if !strings.Contains(err.Error(), "make trials longer") {
		t.Error(err)
	}
	supply("BAT1", map[string]string{"charge_now": "2877000", "voltage_now": "11900000"})
	if used, err = Between(before, later(t, s, before, time.Minute)); err != nil {
		// BAT0 ends in four zeros: its steps of 36 J stand against 5,292 J.
		t.Fatal(err)
	}
	near(t, "the battery", used.Joules, 123000*3.6e-3*11.95)
	supply("BAT1", map[string]string{"status": "Charging"})
	if _, err := s.Read(t.Context()); err == nil || !strings.Contains(err.Error(), `"Charging"`) {
		t.Errorf("of a battery that is charged: %v", err)
	}
	supply("BAT1", map[string]string{"status": "Discharging", "charge_now": "3000000"})
	if _, err := Between(first(t, s), before); err == nil {
		t.Error("a reading before the other one is taken")
	}
	if err := os.Remove(filepath.Join(sys, "class/power_supply/BAT1/voltage_now")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "not its voltage") {
		t.Errorf("of a charge without a voltage: %v", err)
	}
}

// TestMeter runs real commands.
func TestMeter(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands are those of a POSIX system")
	}
	file := filepath.Join(t.TempDir(), "joules")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("1000.50\n")
	s := opened(t, Meter, "", "cat", file)
	before := first(t, s)
	write("1024.75\n")
	used, err := Between(before, later(t, s, before, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	near(t, "the meter", used.Joules, 24.25)
	for text, says := range map[string]string{
		"1000.60": "make trials longer", "1000.5": "make trials longer", "900": "went backwards",
		"": "one decimal number", "watts": "one decimal number", "1.2e6": "no exponent", "-5": "one decimal number",
		"1,5": "no comma", "12 J": "no unit", "1\n2": "one decimal number", "NaN": "one decimal number",
		strings.Repeat("1", 70): "more than the 64 bytes", "99999999999999999999": "beyond 1e+15", ".": "one decimal",
	} {
		write(text)
		r, err := s.Read(t.Context())
		if err == nil {
			d := before.Began.Add(time.Second).Sub(r.Began)
			r.Began, r.Ended = r.Began.Add(d), r.Ended.Add(d)
			_, err = Between(before, r)
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
	// What a command says when it fails may be a secret.
	for _, command := range [][]string{nil, {""}, {"/no/such/meter"},
		{"sh", "-c", "echo secret; echo secret >&2; exit 3"}} {
		if _, err := Open(t.Context(), Meter, command, ""); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", command, err)
		}
	}
	// One that is stopped leaves nothing behind.
	ctx, cancel := context.WithCancel(t.Context())
	go func() { time.Sleep(50 * time.Millisecond); cancel() }()
	if _, err := Open(ctx, Meter, []string{"sleep", "600"}, ""); err == nil {
		t.Error("a meter that was stopped gave a reading")
	}
}

func FuzzCounters(f *testing.F) {
	f.Add("262143328850\n", "12\n", "package-0", "262143328850")
	f.Add("18446744073709551615", "-1", "psys", "0")
	f.Add("", "1e9", "dram\x00", "x")
	f.Fuzz(func(t *testing.T, before, after, name, most string) {
		sys := t.TempDir()
		dir := "class/powercap/intel-rapl:0/"
		tree(t, sys, map[string]string{dir + "name": name, dir + "energy_uj": before,
			dir + "max_energy_range_uj": most})
		sane(t, &rapl{sys: sys}, func() { tree(t, sys, map[string]string{dir + "energy_uj": after}) })
		dir = "class/power_supply/BAT0/"
		tree(t, sys, map[string]string{dir + "type": "Battery", dir + "status": "Discharging",
			dir + "charge_now": before, dir + "voltage_now": most})
		sane(t, &battery{sys: sys}, func() { tree(t, sys, map[string]string{dir + "charge_now": after}) })
	})
}

// sane holds that what is used is a sum of joules, or an error.
func sane(t *testing.T, s Source, change func()) {
	before, err := s.Read(t.Context())
	if err != nil {
		return
	}
	change()
	after, err := s.Read(t.Context())
	if err != nil {
		return
	}
	after.Began, after.Ended = after.Began.Add(time.Second), after.Ended.Add(time.Second)
	if used, err := Between(before, after); err == nil && (!(used.Joules > 0) || math.IsInf(used.Joules, 0)) {
		t.Errorf("%+v", used)
	}
}

func FuzzMeter(f *testing.F) {
	for _, s := range []string{"1", "123456.7\n", "1e5", "0x10", "-1", ".5", "5.", "1_0", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseMeter(text)
		if err == nil && (!(c.value >= 0) || c.value >= mostMeter || !(c.step > 0)) {
			t.Errorf("%q is %+v", text, c)
		}
	})
}
