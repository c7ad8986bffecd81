package gallery

import (
	"fmt"
	"html/template"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/judge/history"
	"tare/internal/lab/env"
	"tare/internal/plan"
	"tare/internal/record"
)

func TestPlaces(t *testing.T) {
	c := func(low, center, high float64, apart bool) rankedCost {
		return rankedCost{low: low, center: center, high: high, margin: 0.02, apart: apart}
	}
	for _, x := range []struct {
		name string
		all  []rankedCost
		want []int
	}{
		{"nothing", nil, []int{}},
		{"apart", []rankedCost{c(2, 2.1, 2.2, true), baselineOf(), c(0.5, 0.55, 0.6, true)}, []int{3, 2, 1}},
		{"tied", []rankedCost{baselineOf(), c(1.5, 1.6, 1.7, true), c(1.6, 1.65, 1.8, true), c(2, 2.1, 2.2, true)},
			[]int{1, 2, 2, 4}},
		// The second overlaps both others, of which one is shown to cost less than the other.
		{"chain", []rankedCost{c(1.2, 1.25, 1.3, true), c(1.28, 1.35, 1.42, true), c(1.4, 1.45, 1.5, true)},
			[]int{1, 1, 2}},
		{"within the margin", []rankedCost{c(1.50, 1.501, 1.502, true), c(1.51, 1.511, 1.512, true)}, []int{1, 1}},
		// Beyond the margin by its interval, and yet no verdict says so.
		{"not shown", []rankedCost{baselineOf(), c(1.05, 1.06, 1.07, false)}, []int{1, 1}},
		{"no place", []rankedCost{baselineOf(), contenderOf(record.Withheld, 2, 1.9, 2.1, 0.02),
			contenderOf(record.Failed, 0, 0, 0, 0.02), contenderOf(record.Inconclusive, 2, 0, 0, 0.02)},
			[]int{1, 0, 0, 0}},
	} {
		if got := places(x.all); !slices.Equal(got, x.want) {
			t.Errorf("%s: %v, want %v", x.name, got, x.want)
		}
	}
}

// TestPaginate holds that no row is lost, doubled or torn out of its section, and that no page is too large.
func TestPaginate(t *testing.T) {
	var rows []template.HTML
	for i := range 500 {
		rows = append(rows, template.HTML(fmt.Sprintf("<r>%d%s</r>", i, strings.Repeat("x", 1500))))
	}
	pages := paginate([]section{{rows: []template.HTML{"<head/>"}}, {open: "<s>", end: "</s>", rows: rows},
		{open: "<never>", end: "</never>"}}, 60)
	if len(pages) != 9 {
		t.Errorf("%d pages", len(pages))
	}
	number := regexp.MustCompile(`<r>(\d+)x`)
	next := 0
	for i, p := range pages {
		s := string(p)
		if len(s) > maxRows || strings.Count(s, "<s>") != strings.Count(s, "</s>") || strings.Contains(s, "never") {
			t.Errorf("page %d: %d bytes, %.60s", i, len(s), s)
		}
		for _, m := range number.FindAllStringSubmatch(s, -1) {
			if m[1] != fmt.Sprint(next) {
				t.Fatalf("row %s where %d should be", m[1], next)
			}
			next++
		}
	}
	if next != 500 {
		t.Errorf("%d rows", next)
	}
	if pages := paginate(nil, 10); len(pages) != 1 || pages[0] != "" {
		t.Errorf("%v", pages)
	}
}

func TestKernelName(t *testing.T) {
	for _, x := range []struct{ os, kernel, want string }{
		{"linux", "6.1.0-18-cloud-amd64", "Linux 6.1"}, {"windows", "10.0.22631", "Windows 10.0"},
		{"darwin", "23.4.0", "macOS 23.4"}, {"linux", "anon-word-1", "Linux anon-word-1"}, {"", "", ""},
		{"plan9", "4\n", "plan9 4"}, {"linux", "7", "Linux 7"},
	} {
		if got := kernelName(&record.Facts{OS: x.os, Kernel: x.kernel}); got != x.want {
			t.Errorf("%q %q: %q, want %q", x.os, x.kernel, got, x.want)
		}
	}
}

func TestDriverOf(t *testing.T) {
	spec := func(driver string) env.Spec { return env.Spec{Driver: driver} }
	for _, x := range []struct {
		target plan.Target
		want   string
	}{
		{plan.Target{Spec: spec("local")}, "host"}, {plan.Target{Spec: spec("docker")}, "docker"},
		{plan.Target{Spec: spec("9p"), Of: "vm"}, "9p mount"},
		{plan.Target{Spec: spec("docker"), Like: "box", Beside: "noisy"}, "docker beside a neighbour"},
	} {
		if got := driverOf(&x.target); got != x.want {
			t.Errorf("%+v: %q, want %q", x.target, got, x.want)
		}
	}
}

// TestTrendDrawing draws courses of every form that could divide by nothing.
func TestTrendDrawing(t *testing.T) {
	for _, ratios := range [][]float64{{1, 1}, {2, 0, 0}, {0, 3}, {1e-9, 1e9, 5}, nil,
		{1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2}} {
		x := &history.Trend{Cell: history.CellName{Target: "a"}}
		for i, r := range append(ratios, make([]float64, 130*(len(ratios)/14))...) {
			x.Points = append(x.Points, history.Point{Created: time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC), Ratio: r,
				Low: r * 0.999, High: r * 1.001, Verdict: "DIFFERENT"})
		}
		if len(ratios) == 0 {
			continue // courses has none
		}
		x.Mark()
		f, err := fragment("trend", drawTrend(x))
		if err != nil || strings.Contains(string(f), "NaN") || strings.Contains(string(f), "Inf") {
			t.Errorf("%v: %s %v", ratios, f, err)
		}
	}
}

// TestPalette holds that the site has the colours of the report page.
func TestPalette(t *testing.T) {
	src, err := os.ReadFile("../../../web/src/style.css")
	if err != nil {
		t.Fatal(err)
	}
	colour := regexp.MustCompile(`--([a-z]+): (#[0-9a-f]{6});`)
	all := colour.FindAllString(styleText, -1)
	if len(all) < 30 {
		t.Errorf("%d colours", len(all))
	}
	for _, c := range all {
		if !strings.Contains(string(src), c) {
			t.Errorf("%s is no colour of the report page", c)
		}
	}
}

// TestSiteFiles holds that nothing but the site's own names is written or removed.
func TestSiteFiles(t *testing.T) {
	for _, name := range []string{"index.html", "work.html", "work-2.html", "lists/12.html", "assets/gallery.js",
		"data/1.js", "results/a-0123456789abcdef.html", "bundles/run.1_x-0123456789abcdef.tare",
		"work/cpu-prime-0123456789abcdef.html", "work/cpu-prime-0123456789abcdef.2.html"} {
		if !siteFile(name) {
			t.Errorf("%s is none", name)
		}
	}
	for _, name := range []string{"", "gallery.json", "../index.html", "/index.html", "results/../index.html",
		"results/a..b-0123456789abcdef.html", "results/a.html", `results\a-0123456789abcdef.html`, "CNAME",
		"results/a-0123456789abcdef.html\n", "work/x/y.html", "data/0.js"} {
		if siteFile(name) {
			t.Errorf("%q is one", name)
		}
	}
}

func FuzzState(f *testing.F) {
	f.Add([]byte(`{"schema":1,"title":"x","results":[{"id":"a-0123456789abcdef","cells":[{"work":"w"}]}],"files":{"index.html":"x"}}`))
	f.Add([]byte(`{"schema":1,"files":{"../x":"y"}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := parseState(src)
		if err != nil {
			return
		}
		for path := range s.Files {
			if !siteFile(path) {
				t.Errorf("%q was taken", path)
			}
		}
		for _, r := range s.Results {
			for _, path := range r.files() {
				if !siteFile(path) {
					t.Errorf("a result has the file %q", path)
				}
			}
		}
		if _, err := s.marshal(); err != nil {
			t.Error(err)
		}
	})
}
