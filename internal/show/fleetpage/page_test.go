package fleetpage

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"tare/internal/judge/fleet"
	"tare/internal/record"
	"tare/internal/stats"
)

const evil = `"><img src=x onerror="window.owned=1"></script><script>window.owned=1</script>`

// scene is a fleet of n hosts with so many workloads, on two kernels. Three hosts are sick, and one's name and facts
// try to become markup.
func scene(n, workloads int) *fleet.Admitted {
	rng := rand.New(rand.NewPCG(4, 5))
	a := &fleet.Admitted{Plan: strings.Repeat("ab", 32), Build: "1a2b3c", By: fleet.ByMachine,
		Expected: n + 1, Missing: []string{"part 7"}, Refused: []fleet.Refusal{{Bundle: "in/<b>.tare", Host: "<b>",
			Code: fleet.Damaged,
			Text: "cut short"}}}
	for i := range n {
		h := &fleet.Host{Name: fmt.Sprintf("node%03d", i), Machine: fmt.Sprint(i), RunID: fmt.Sprintf("%012x", i),
			PlanName: "nodes", Build: a.Build, Finished: i != 5, Alpha: 0.05, Precision: 0.01, Trials: 40,
			Number: i + 1,
			Of:     n + 1, Created: time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC), Facts: map[string]string{
				"kernel": "6.1.0-28", "machine.product": "m5.large", "cpu.microcode": "0x100", "processor": "Ideal CPU",
				"cpu.measured_mhz": fmt.Sprint(2900 + rng.IntN(20))}}
		sick := 0.0
		if i < 3 {
			sick, h.Facts["cpu.microcode"] = 0.2, "0x0f7"
		}
		if i%3 == 0 {
			h.Facts["kernel"] = "6.6.0-1"
		}
		if i == 4 {
			h.Name, h.Facts["kernel"], h.Facts[evil] = evil, evil, evil
		}
		for w := range workloads {
			unit, better, center := "s", "lower", math.Log(0.4)
			if w%4 == 1 {
				unit, better = "B/s", "higher"
				center = -math.Log(2e9)
			}
			label := fmt.Sprintf("cpu.prime max=%d", 1000*(w+1))
			noise, differ := 0.003+0.002*float64(w%5), 0.01
			m := fleet.Measure{Key: fleet.Key{Workload: label, Metric: "time", Target: "host"}, Unit: unit,
				Better: better, Primary: true, SE: noise, DF: 9,
				Center: center + differ*rng.NormFloat64() + noise*rng.NormFloat64(),
				Blocks: 10, State: record.Measured, Margin: 0.02, Same: 0.02,
				Nested: stats.Nested{Block: 90 * noise * noise, BlockDF: 9}}
			if w%2 == 0 {
				m.Center += sick
			}
			if h.Facts["kernel"] == "6.6.0-1" && w == 2 {
				m.Center += 0.04
			}
			if i == 7 && w == 0 {
				m.Why, m.State = "it did not <i>run</i>", record.Failed
			}
			h.Measures = append(h.Measures, m)
			if w == 0 {
				m.Key.Target, m.Key.Baseline, m.Unit, m.Better = "box", "host", "", "lower"
				m.Center, m.State = math.Log(1.12)+differ*rng.NormFloat64(), record.Different
				h.Measures = append(h.Measures, m)
			}
		}
		a.Hosts = append(a.Hosts, fleet.Candidate{Bundle: "in/" + h.Name, File: fmt.Sprintf("hosts/n%03d.tare", i),
			Host: h})
	}
	return a
}

// written writes all pages of a fleet and returns where the page of all hosts is.
func written(t testing.TB, a *fleet.Admitted) string {
	t.Helper()
	dir := t.TempDir()
	p := New(fleet.Judge(a), a, "fleet-hosts", "nodes")
	put := func(path string, page func(b *bytes.Buffer) error) {
		t.Helper()
		var b bytes.Buffer
		if err := page(&b); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "fleet-hosts"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i, name := range p.Files() {
		put(filepath.Join(dir, "fleet-hosts", name),
			func(b *bytes.Buffer) error { return p.Host(b, i, "../fleet.html") })
	}
	page := filepath.Join(dir, "fleet.html")
	put(page, func(b *bytes.Buffer) error { return p.Overview(b) })
	return page
}

func read(t *testing.T, path string) string {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(src)
}

// TestPages holds what the pages say, that every link leads somewhere and that no text becomes markup.
func TestPages(t *testing.T) {
	page := written(t, scene(40, 4))
	pages, err := filepath.Glob(filepath.Join(filepath.Dir(page), "fleet-hosts", "*.html"))
	if err != nil || len(pages) != 40 {
		t.Fatalf("%d pages of hosts: %v", len(pages), err)
	}
	text := read(t, page)
	for _, want := range []string{"40 of 41 hosts", "Missing: part 7", "node001", "cpu.microcode", "0x0f7", "6.6.0-1",
		"on a further host of the kind between", `class="u4 odd">▲+2`, "it did not &lt;i&gt;run&lt;/i&gt;"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page of all hosts has no %q", want)
		}
	}
	one := read(t, pages[1])
	for _, want := range []string{"It lies apart", "node001", "part 2 of 41", "tare report nodes/hosts/n001.tare",
		"../fleet.html", " of 40<"} {
		if !strings.Contains(one, want) {
			t.Errorf("the page of node001 has no %q", want)
		}
	}
	if !strings.HasPrefix(one, Generated) {
		t.Error("a host's page cannot be told from other files")
	}
	link := regexp.MustCompile(`href="([^"#][^"]*)"`)
	for _, path := range append([]string{page}, pages...) {
		text := read(t, path)
		if strings.Contains(text, "<img") || strings.Contains(text, "<script") || strings.Contains(text, "ZgotmplZ") ||
			strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("%s has what no page may have", path)
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

// TestPagesOfFew holds that a fleet of any size has a page.
func TestPagesOfFew(t *testing.T) {
	for n := range 7 {
		text := read(t, written(t, scene(n, 2)))
		if strings.Contains(text, "NaN") || !strings.Contains(text, "</html>") {
			t.Errorf("%d hosts:\n%s", n, text)
		}
	}
	var b bytes.Buffer
	a := scene(6, 1)
	err := New(fleet.Judge(a), a, "", "nodes").Overview(&b)
	if err != nil || strings.Contains(b.String(), "fleet-hosts") {
		t.Errorf("a page without pages of hosts leads to them: %v", err)
	}
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{1: "0", 1.004: "0", 1.12: "+12", 0.9: "-10", 4.2: "×4.00", 0: "?",
		math.Inf(1): "?"} {
		if got := short(v); got != want {
			t.Errorf("%g is %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{1: "", 1.019: "", 1.03: "u1", 1.3: "u4", 9: "u5", 1 / 1.3: "d4"} {
		if got := shade(v); got != want {
			t.Errorf("%g has the shade %q, want %q", v, got, want)
		}
	}
}

// BenchmarkPages writes the page of 500 hosts with 20 workloads, and those of all hosts.
func BenchmarkPages(b *testing.B) {
	a := scene(500, 20)
	r := fleet.Judge(a)
	for b.Loop() {
		p := New(r, a, "fleet-hosts", "nodes")
		var out bytes.Buffer
		if err := p.Overview(&out); err != nil {
			b.Fatal(err)
		}
		for i := range p.Files() {
			if err := p.Host(&out, i, "../fleet.html"); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(out.Len())/(1<<20), "MiB")
	}
}

// FuzzPages holds that whatever a summary says, its page is written, and that nothing of it becomes markup.
func FuzzPages(f *testing.F) {
	f.Add("n", "kernel", evil, "w", "s", 0.4, 0.01, 3)
	f.Add(evil, evil, "", evil, evil, math.Inf(1), math.NaN(), 9)
	f.Add("\x00\xff/..", "a: b", "x", "\u2028", "", -1e300, 0.0, 6)
	f.Fuzz(func(t *testing.T, name, fact, value, workload, unit string, center, se float64, n int) {
		a := &fleet.Admitted{Expected: 3}
		for i := range min(max(n, 0), 12) {
			h := &fleet.Host{Name: fmt.Sprint(name, i), Alpha: 0.05, Facts: map[string]string{fact: value}}
			h.Measures = []fleet.Measure{{Key: fleet.Key{Workload: workload, Target: name, Metric: fact}, Unit: unit,
				Primary: true, Center: center * float64(i), SE: se, DF: 9, Same: 0.02, Margin: 0.02}}
			a.Hosts = append(a.Hosts, fleet.Candidate{Bundle: name, Host: h})
		}
		p := New(fleet.Judge(a), a, "x-hosts", value)
		var b bytes.Buffer
		err := p.Overview(&b)
		for i := range a.Hosts {
			err = errors.Join(err, p.Host(&b, i, "../x.html"))
		}
		if err != nil || strings.Contains(b.String(), "<img") || strings.Contains(b.String(), "<script") {
			t.Errorf("%v: %s", err, b.String())
		}
		for _, file := range p.Files() {
			if filepath.Base(file) != file || strings.ContainsAny(file, "/\\:") {
				t.Errorf("%q is a path", file)
			}
		}
	})
}
