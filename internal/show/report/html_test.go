package report

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/show/report/chromium"
	"tare/internal/show/report/page"
	"tare/internal/sys/proc"
)

const emptyPage = "<!doctype html><body>" + dataBlock + "\n" + trialsBlock + "<script>1</script></body>"

// pageReads is htmlData as the page has it, which knows a condition's state by name.
type pageReads struct {
	htmlData
	Gates []struct{ State string } `json:"gates"`
}

// blocks reads the two data blocks of a page again, as a browser finds them: from the opening tag to the first closing
// one.
func blocks(t *testing.T, html []byte) (pageReads, htmlTrials) {
	t.Helper()
	var d pageReads
	var x htmlTrials
	for _, b := range []struct {
		id   string
		into any
	}{{"tare-data", &d}, {"tare-trials", &x}} {
		_, after, ok := bytes.Cut(html, []byte(`id="`+b.id+`">`))
		text, _, closed := bytes.Cut(after, []byte("</script"))
		if !ok || !closed {
			t.Fatalf("no block %s", b.id)
		}
		if bytes.ContainsAny(text, "<>&") || bytes.ContainsAny(text, "\u2028\u2029") {
			t.Errorf("%s holds characters that markup or script would see", b.id)
		}
		if err := json.Unmarshal(text, b.into); err != nil {
			t.Fatalf("%s: %v", b.id, err)
		}
	}
	return d, x
}

// UnmarshalJSON reads a column again.
func (c *column) UnmarshalJSON(b []byte) error {
	var v []*float64
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*c = make(column, len(v))
	for i, x := range v {
		(*c)[i] = math.NaN()
		if x != nil {
			(*c)[i] = *x
		}
	}
	return nil
}

func TestHTMLBlocks(t *testing.T) {
	m := fileModel()
	var b bytes.Buffer
	if err := writePage(&b, []byte(emptyPage), m); err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(b.Bytes(), []byte("<!doctype html><body>")) ||
		!bytes.HasSuffix(b.Bytes(), []byte("<script>1</script></body>")) {
		t.Error("the page around the data is not as it was")
	}
	d, x := blocks(t, b.Bytes())
	if d.Format != pageFormat || len(d.Result.Cells) != len(m.Cells) || d.Bundle != m.Bundle || d.Seed != "7" ||
		d.Started != "2026-11-21T07:31:00Z" || len(d.Gates) != 3 || d.Gates[0].State != "holds" ||
		d.Gates[1].State != "no" || d.Gates[2].State != "unknown" {
		t.Errorf("format %d, %d cells, bundle %q, seed %s, started %s, %d conditions", d.Format, len(d.Result.Cells),
			d.Bundle, d.Seed, d.Started, len(d.Gates))
	}
	if len(d.Workloads) == 0 || d.Workloads[1].Params["bs"] != "4KiB" {
		t.Errorf("the workloads' parameters are missing: %+v", d.Workloads)
	}
	n, failed := 0, 0
	for _, s := range x.Series {
		n += len(s.Seq)
		for name, c := range s.Metrics {
			if len(c) != len(s.Seq) {
				t.Errorf("%s %s: %d figures of %d trials", s.Workload, name, len(c), len(s.Seq))
			}
		}
		for _, mark := range s.Mark {
			if mark&markFailed != 0 {
				failed++
			}
		}
	}
	wantFailed := 0
	for i := range m.Trials {
		if m.Trials[i].Error != nil {
			wantFailed++
		}
	}
	// The line that marks a block as discarded is no trial.
	if n != len(m.Trials)-1 || failed != wantFailed || failed == 0 {
		t.Errorf("%d trials with %d failed, want %d with %d", n, failed, len(m.Trials)-1, wantFailed)
	}
	var again bytes.Buffer
	if err := writePage(&again, []byte(emptyPage), fileModel()); err != nil || !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Errorf("a second rendering differs (%v)", err)
	}
}

func TestHTMLTrials(t *testing.T) {
	start := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	trial := func(seq, block int, target, slot string, v float64) record.Trial {
		return record.Trial{Seq: seq, Session: 1, Block: block, Workload: "w", Target: target, Slot: slot,
			Start: start.Add(time.Duration(seq) * time.Second),
			Figures: record.Figures{Metrics: map[string]float64{"m": v},
				Samples: map[string][]float64{"m": {v, v * 3}}, State: map[string]string{"direct": "no", "n": target}}}
	}
	trials := []record.Trial{trial(1, 0, "host", "", 9), trial(2, 1, "host", "", 1234567.89),
		trial(3, 1, "host", record.NullSlot, 2), trial(4, 2, "vm", "", 4), trial(5, 2, "gone", "", 4)}
	trials[3].Host = &record.HostState{}
	trials = append(trials, record.Trial{Seq: 6, Session: 1, Block: 3, Workload: "w", Target: "vm",
		Error: &record.Failure{Message: strings.Repeat("é", 400)}},
		trial(7, 4, "vm", "", 5), record.Trial{Seq: 8, Session: 1, Block: 4, Workload: "w", Discarded: "steal"})
	m := NewModel(&verdict.Result{Targets: []verdict.Target{{Target: record.Target{Name: "host"}, Baseline: true},
		{Target: record.Target{Name: "vm"}}}})
	m.Trials = trials
	x := pageTrials(m, nil)
	if len(x.Series) != 1 {
		t.Fatalf("%d series", len(x.Series))
	}
	s := x.Series[0]
	got, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"mark":[2,0,1,16,8,4]`, `"target":[0,0,0,1,1,1]`, `"start":[0,1,2,3,`,
		`"m":[9,1.23457e+06,2,4,null,5]`, `{"target":1,"key":"n","text":"vm"}`} {
		if !bytes.Contains(got, []byte(want)) {
			t.Errorf("%s is not in %.900s", want, got)
		}
	}
	if e := s.Errors["4"]; len(e) > maxPageError+3 || !strings.HasSuffix(e, "...") {
		t.Errorf("error of %d bytes: %q", len(e), e)
	}
	// The sketch is of used trials: not the warm-up, not the discarded block; the null control is the baseline too.
	if len(s.Samples) != 2 || s.Samples[0].Count != 4 || s.Samples[1].Count != 2 ||
		len(s.Samples[1].Quantiles) != sketch+1 || s.Samples[1].Quantiles[sketch] != 12 {
		t.Errorf("samples %+v", s.Samples)
	}
}

func TestStateText(t *testing.T) {
	for want, values := range map[string][]string{"no": {"no", "no"}, "3 to 12": {"12", "3", "7"},
		"no, yes": {"yes", "no", "yes"}, "5 different values, as a": {"e", "d", "c", "b", "a"}} {
		if got := stateText(values); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestHTMLOfOddModels(t *testing.T) {
	for name, m := range scenes() {
		var b bytes.Buffer
		if err := writePage(&b, []byte(emptyPage), m); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		blocks(t, b.Bytes())
	}
	m := scenes()["unfinished"]
	m.Plan = nil
	var b bytes.Buffer
	if err := writePage(&b, []byte(emptyPage), m); err != nil {
		t.Fatal(err)
	}
	if d, _ := blocks(t, b.Bytes()); d.Plan != "" || d.Workloads == nil || len(d.Workloads) != 0 {
		t.Errorf("no plan gives %q and %d workloads", d.Plan, len(d.Workloads))
	}
	if err := writePage(&b, []byte("<html></html>"), m); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("a page without a place for the data: %v", err)
	}
}

// FuzzHTML holds that no text leaves its data block and that the block stays JSON.
func FuzzHTML(f *testing.F) {
	f.Add("vm", "</script><script>alert(1)</script>", "\u2028<!--\xff\x00")
	f.Fuzz(func(t *testing.T, target, label, text string) {
		m := NewModel(&verdict.Result{Run: verdict.Run{Name: text, Baseline: target},
			Targets: []verdict.Target{{Target: record.Target{Name: target}, Baseline: true}},
			Cells: []verdict.Cell{{Workload: label, Target: target,
				Failure: &record.Failure{Message: text, Evidence: label}}}})
		m.Plan, m.Bundle = &plan.Plan{Question: text, Baseline: target,
			Workloads: []plan.Workload{{Label: label, Params: workload.Params{label: text}}}}, label
		m.Trials = []record.Trial{{Workload: label, Target: target,
			Figures: record.Figures{Metrics: map[string]float64{text: 1},
				State: map[string]string{label: text}}, Error: &record.Failure{Message: text}}}
		var b bytes.Buffer
		if err := writePage(&b, []byte(emptyPage), m); err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(b.Bytes(), []byte("<")); n != strings.Count(emptyPage, "<") {
			t.Fatalf("%d tags, want %d", n, strings.Count(emptyPage, "<"))
		}
		blocks(t, b.Bytes())
	})
}

// TestPageTemplate holds what the built page must be: small, complete, and closed to everything else.
func TestPageTemplate(t *testing.T) {
	html, ok := page.HTML()
	if !ok {
		if err := HTML(&bytes.Buffer{}, scenes()["unfinished"]); err == nil ||
			!strings.Contains(err.Error(), "make build") {
			t.Errorf("without the page: %v", err)
		}
		chromium.Missing(t, "the page is not built (make web, with Node.js)")
	}
	if len(html) > 2<<20 {
		t.Errorf("the page is %d bytes, want at most 2 MiB", len(html))
	}
	head, _, _ := bytes.Cut(html, []byte("</head>"))
	policy := regexp.MustCompile(`http-equiv="Content-Security-Policy" content="([^"]*)"`).FindSubmatch(head)
	if policy == nil {
		t.Fatal("the page has no policy")
	}
	for _, want := range []string{"default-src 'none'", "script-src 'sha256-", "style-src 'sha256-", "base-uri 'none'",
		"form-action 'none'", "require-trusted-types-for 'script'"} {
		if !bytes.Contains(policy[1], []byte(want)) {
			t.Errorf("the policy lacks %s: %s", want, policy[1])
		}
	}
	if bytes.Contains(policy[1], []byte("unsafe")) || bytes.Contains(policy[1], []byte("http")) {
		t.Errorf("the policy is loose: %s", policy[1])
	}
	m := largeModel()
	var b, data bytes.Buffer
	if err := HTML(&b, m); err != nil {
		t.Fatal(err)
	}
	if err := JSON(&data, m); err != nil {
		t.Fatal(err)
	}
	d, x := blocks(t, b.Bytes())
	one, _ := json.Marshal(d)
	two, _ := json.Marshal(x)
	if over := b.Len() - len(one) - len(two); over > 2<<20 {
		t.Errorf("%d bytes beside the data, want at most 2 MiB", over)
	}
	t.Logf("page %d KiB; 2,000 cells with %d trials: %d KiB of results, %d KiB of trials", len(html)>>10, len(m.Trials),
		len(one)>>10, len(two)>>10)
	// Columns are worth it only while they are small beside the lines they stand for.
	if per := len(two) / len(m.Trials); per > 60 {
		t.Errorf("%d bytes for each trial, want at most 60", per)
	}
}

// TestWebUnits runs the page's own tests: its arithmetic must agree with the program's.
func TestWebUnits(t *testing.T) {
	const runner = "../../../web/node_modules/.bin/vitest"
	if _, err := os.Stat(runner); err != nil {
		chromium.Missing(t, "the page's tools are not installed (make web, with Node.js)")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := proc.Command(ctx, "node_modules/.bin/vitest", "run", "--reporter=dot", "--no-color")
	cmd.Dir = "../../../web"
	if out, err := proc.RunCmd(cmd, nil); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
