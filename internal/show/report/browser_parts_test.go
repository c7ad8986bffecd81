package report

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/record"
	"tare/internal/show/report/chromium"
)

// text is what a reader sees of the elements that a selector finds.
func text(p *chromium.Tab, selector string) string {
	return chromium.Eval[string](p, `[...document.querySelectorAll(`+"`"+selector+"`"+
		`)].map(e => e.innerText.replace(/\s+/g, " ")).join("\n")`)
}

// testCosts holds that the page does the sums that the program did, and says what it could not.
func testCosts(t *testing.T, p *chromium.Tab) {
	m := pageModel()
	done := 0
	for _, l := range m.Normal.Lines {
		if l.Refused == "" {
			done++
		}
	}
	rows := text(p, "#paid .restated > .scroll .paid-table tbody tr")
	if n := strings.Count(rows, "\n") + 1; done < 4 || n != min(done, 24) {
		t.Errorf("%d lines restated, %d shown:\n%s", done, n, rows)
	}
	for _, want := range []string{"(0.05 EUR/h) / (0.2 EUR/h)", "cpu.prime vm"} {
		if !strings.Contains(rows, want) {
			t.Errorf("%q is not in:\n%s", want, rows)
		}
	}
	// The product as it is shown: measured times 0.05 / 0.2.
	sum := chromium.Eval[string](p,
		`(() => { const r = [...document.querySelectorAll("#paid .paid-table tbody tr")].find(r => r.innerText.includes("cpu.prime")); const f = i => parseFloat(r.children[i].innerText); return f(2) + " " + f(4); })()`)
	var before, after float64
	if _, err := fmt.Sscan(sum, &before, &after); err != nil || math.Abs(before/4-after) > 0.006 || !(before > 0) {
		t.Errorf("%s: a quarter of the price does not make a quarter of the cost", sum)
	}
	if refused := text(p, "#paid .restated details summary"); !strings.Contains(refused,
		"the price of box is not known") || !strings.Contains(refused, "not restated") {
		t.Errorf("refused: %s", refused)
	}
	worth := text(p, "#paid .worth")
	for _, want := range []string{"Is it worth 140 EUR?", "50,000 times a day", "box saves", "× 365 days",
		"× 60 EUR an hour", "first used 2026-11-21", "vm: no answer", "nothing is saved",
		"2 at once /", "More capacity", "Price of 1 req/s more"} {
		if !strings.Contains(worth, want) {
			t.Errorf("%q is not in:\n%s", want, worth)
		}
	}
	if day := m.Worth.Answers[0].BreakEvenDay.Format(time.DateOnly); !strings.Contains(worth, "on "+day) {
		t.Errorf("the day %s is not in:\n%s", day, worth)
	}
}

// testGroups holds that the page names the statements that make the difference first, keeps all others at hand, and
// shows unequal work side by side.
func testGroups(t *testing.T, p *chromium.Tab) {
	if n := chromium.Eval[int](p, `document.querySelectorAll("#groups .grouped").length`); n != 6 {
		t.Errorf("%d candidates and workloads with groups, want 6", n)
	}
	const first = `[...document.querySelectorAll("#groups .grouped")].find(e => e.innerText.startsWith("vm, cpu.prime"))`
	said := chromium.Eval[string](p, first+`.innerText.replace(/\s+/g, " ")`)
	for _, want := range []string{"4.97 s in host", "more in vm", "SELECT `a|b`, count(*) FROM orders", "+91.8", "▲",
		"4.00×", "97 more"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in: %s", want, said)
		}
	}
	if n := chromium.Eval[int](p, first+`.querySelectorAll(":scope > .scroll tbody tr").length`); n != 3 {
		t.Errorf("%d statements explain the difference, want 3", n)
	}
	if unequal := text(p, `#groups tr:has(.differs)`); !strings.Contains(unequal, "the work differs") ||
		!strings.Contains(unequal, "10 / 9") {
		t.Errorf("unequal work: %s", unequal)
	}
	if sides := text(p, `#groups .differences-table tbody`); !strings.Contains(sides, "411") ||
		!strings.Contains(sides, "0 rows") || !strings.Contains(sides, "error 4c8f11d2") ||
		!strings.Contains(sides, "…and <script>host</script> (end)") ||
		!strings.Contains(sides, "…and <script>vm</script> (end)") {
		t.Errorf("what differs: %s", sides)
	}
	chromium.Eval[any](p, `document.querySelector(".differences-table").scrollIntoView({behavior: "instant", block: "center"})`)
	p.Shoot("groups", false)
}

// testWhy holds that the bars add up to the ratios, that letters tell the parts apart, that the answer has the largest
// part in a sum, and that what is not counted is said once.
func testWhy(t *testing.T, p *chromium.Tab) {
	chromium.Eval[any](p, `document.querySelector("#why figure").scrollIntoView({behavior: "instant"})`)
	drawn(p, "#why figure")
	const sums = `(() => { const f = document.querySelector('#why figure svg.chart'); const rows = new Map();
		for (const r of f.querySelectorAll(".segment rect")) { const y = r.getAttribute("y"); rows.set(y, (rows.get(y) ?? 0) + Number(r.getAttribute("width"))); }
		return [...rows.values()]; })()`
	widths := chromium.Eval[[]float64](p, sums)
	shown := chromium.Eval[[]string](p,
		`[...document.querySelector("#why figure").querySelectorAll("svg.chart text.figures")].map(e => e.textContent)`)
	if len(widths) != 4 || len(shown) != 4 || shown[0] != "1" {
		t.Fatalf("bars of %v, told as %q", widths, shown)
	}
	for i, text := range shown {
		var ratio float64
		if _, err := fmt.Sscanf(strings.TrimSuffix(text, "×"), "%g", &ratio); err != nil ||
			math.Abs(widths[i]/widths[0]/ratio-1) > 0.01 {
			t.Errorf("a bar of %.1f pixels stands for %s, one of %.1f for 1", widths[i], text, widths[0])
		}
	}
	const texts = `[...document.querySelectorAll("%s")].map(e => e.textContent).join("\n")`
	letters := chromium.Eval[string](p, fmt.Sprintf(texts, "#why figure .key li"))
	for _, want := range []string{"u user code", "k kernel", "p waiting for a processor", "d waiting for a disk",
		"w waiting for something else"} {
		if !strings.Contains(letters, want) {
			t.Errorf("the key lacks %q: %s", want, letters)
		}
	}
	labels := chromium.Eval[string](p, fmt.Sprintf(texts, "#why .stage .segment text"))
	if !strings.Contains(labels, "k 0.") || !strings.Contains(labels, "w ") {
		t.Errorf("the parts carry no letters: %s", labels)
	}
	answer := text(p, "#answer .reason")
	for _, want := range []string{" = 1 + ", "waiting for something else", "Most of the difference is "} {
		if !strings.Contains(answer, want) {
			t.Errorf("the answer does not say %q:\n%s", want, answer)
		}
	}
	chromium.Eval[any](p, `document.querySelectorAll("#why details").forEach(d => d.open = true)`)
	all := text(p, "#why")
	if n := strings.Count(all, "vm: there is no counter of the processor"); n != 1 {
		t.Errorf("what vm does not count is said %d times", n)
	}
	if !strings.Contains(all, "box as a product: ") || !strings.Contains(all, " instructions × ") {
		t.Errorf("no product where both processors count:\n%s", all)
	}
	chromium.Eval[any](p, `document.querySelector("#why figure svg.chart").focus()`)
	p.Press("Home")
	if tip := text(p, "#why figure .tip"); !strings.Contains(tip, "host · user code") {
		t.Errorf("the first part says %q", tip)
	}
	p.Shoot("why", false)
}

// testFlame holds that a flame graph has both sides on one scale, marks what differs, cuts names instead of letting
// them out of their boxes, and says that it is of traced trials.
func testFlame(t *testing.T, p *chromium.Tab) {
	const figure = `[data-workload="cpu.prime"] figure.flame`
	chromium.Eval[any](p, `document.querySelector('[data-workload="cpu.prime"]').open = true`)
	p.Until("the workload is opened", `!!document.querySelector('`+figure+`')`)
	drawn(p, figure)
	boxes := chromium.Eval[[]float64](p, `[...document.querySelectorAll('`+figure+
		` svg.chart g rect')].map(r => Number(r.getAttribute("width")))`)
	// In vm all eight, in host all but idle, which is no pixel there.
	if len(boxes) < 14 || len(boxes) > 16 || math.Abs(boxes[0]/boxes[8]-2) > 0.001 &&
		math.Abs(boxes[0]/boxes[7]-2) > 0.001 {
		t.Errorf("boxes of %v", boxes)
	}
	shown := chromium.Eval[string](p, `[...document.querySelectorAll('`+figure+
		` svg.chart text')].map(e => e.textContent).join("\n")`)
	for _, want := range []string{"vm (what serves it on the controller's machine): 200 µs for each event",
		"host: 100 µs for each event", "walk +60.0 µs", "walk −60.0 µs", "lookup<layer>", "sort\n"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the graph does not say %q:\n%s", want, shown)
		}
	}
	if out := chromium.Eval[string](p, `[...document.querySelectorAll('`+figure+
		` svg.chart g')].filter(g => g.querySelector("text")?.getBoundingClientRect().right > g.querySelector("rect").getBoundingClientRect().right + 1).map(g => g.textContent).join("\n")`); out != "" {
		t.Errorf("out of its box: %s", out)
	}
	all := text(p, figure+` , [data-workload="cpu.prime"] .traced > .note`)
	for _, want := range []string{"5 trials of each that were traced after the run: no figure of this report",
		"+ more time than in the other", "3 more functions of at most 12 ns each are left out"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in: %s", want, all)
		}
	}
	chromium.Eval[any](p, `document.querySelector('`+figure+` svg.chart').focus()`)
	p.Press("Home")
	p.Press("ArrowRight")
	if tip := text(p, figure+` .tip`); !strings.Contains(tip, "150 µs in vm, 90.0 µs in host for each event") {
		t.Errorf("the second function says %q", tip)
	}
	chromium.Eval[any](p, `document.querySelector('`+figure+` details.behind').open = true`)
	p.Until("the table is there", `!!document.querySelector('`+figure+` details.behind tbody')`)
	if rows := text(p, figure+` details.behind tbody tr`); !strings.Contains(rows, "sys_stat ← walk ← main") ||
		strings.Count(rows, "\n") != 6 {
		t.Errorf("the table:\n%s", rows)
	}
	chromium.Eval[any](p, `document.querySelector('`+figure+` details.behind').open = false`)
	_, saved := saveAs(t, p, "flame-cpu.prime", "SVG")
	standsAlone(t, "flame-cpu.prime", saved)
	for _, theme := range []string{"light", "dark"} {
		chromium.Eval[any](p, `document.documentElement.dataset.theme = "`+theme+`"`)
		chromium.Eval[any](p,
			`document.querySelector('`+figure+`').scrollIntoView({behavior: "instant", block: "center"})`)
		p.Shoot("flame-"+theme, false)
	}
	chromium.Eval[any](p, `delete document.documentElement.dataset.theme`)
}

// testDisks holds that the picture of a disk shows every kind of cell in its proportion, and its jumps.
func testDisks(t *testing.T, p *chromium.Tab) {
	chromium.Eval[any](p, `document.querySelector("#disks figure").scrollIntoView({behavior: "instant"})`)
	p.Until("the disk is drawn", `!!document.querySelector("#disks figure.disk-map svg.chart")`)
	const share = `(() => { const s = {}; let all = 0; for (const r of document.querySelectorAll("#disks .disk-map rect[data-kind]")) { const w = +r.getAttribute("width"); s[r.dataset.kind] = (s[r.dataset.kind] ?? 0) + w; all += w; } return `
	for kind, want := range map[string]float64{"data": 500, "compressed": 60, "zero": 80, "inherited": 60,
		"free": 324} {
		if got := chromium.Eval[float64](p, share+`s["`+kind+`"] / all; })()`); math.Abs(got-want/1024) > 0.002 {
			t.Errorf("%s takes %.4f of the picture, want %.4f", kind, got, want/1024)
		}
	}
	if n := chromium.Eval[int](p, `document.querySelectorAll("#disks .disk-map [data-jump]").length`); n != 260 {
		t.Errorf("%d cells with jumps, want 260", n)
	}
	key := text(p, "#disks .disk-map .key li")
	for _, want := range []string{"stored (darker: fuller)", "stored compressed", "in a parent image",
		"marked as zeros", "free: in no image", "jumps in the file"} {
		if !strings.Contains(key, want) {
			t.Errorf("the legend lacks %q: %s", want, key)
		}
	}
	// By keyboard, as by pointer: the first cell and what it holds.
	chromium.Eval[any](p, `document.querySelector("#disks .disk-map svg.chart").focus()`)
	p.Press("Home")
	if tip := text(p, "#disks .disk-map .tip"); !strings.Contains(tip, "0 B to 1 MiB of the disk") ||
		!strings.Contains(tip, "100 % stored") {
		t.Errorf("the first cell says %q", tip)
	}
	chromium.Eval[any](p, `document.querySelector("#disks figure.disk-order").scrollIntoView({behavior: "instant"})`)
	p.Until("its order is drawn", `document.querySelectorAll("#disks .disk-order circle:not(.ring)").length === 620`)
	if damaged := text(p, "#disks .empty, #disks .disk p"); !strings.Contains(damaged, "2 values of data for 1 cells") {
		t.Errorf("a damaged picture says nothing of it: %s", damaged)
	}
}

// testFlushes holds that a write figure has what a flush does beside it.
func testFlushes(t *testing.T, p *chromium.Tab) {
	legend := text(p, "#forest .legend")
	if !strings.Contains(legend, "i flush ignored") {
		t.Errorf("the legend explains no mark of a flush: %s", legend)
	}
	chromium.Eval[any](p,
		`(() => { const d = document.querySelector('[data-workload="fs.seqwrite fsync=end"]'); d.open = true; d.scrollIntoView({behavior: "instant"}); })()`)
	p.Until("it is opened", `!!document.querySelector('[data-workload="fs.seqwrite fsync=end"] table')`)
	figures := text(p, `[data-workload="fs.seqwrite fsync=end"] .body > .scroll tbody tr`)
	if !strings.Contains(figures, "DISPROVED ignores flushes") || !strings.Contains(figures,
		"NOT DISPROVED passes flushes on") {
		t.Errorf("figures without what a flush does: %s", figures)
	}
	if other := text(p, `[data-workload="cpu.prime"] thead`); strings.Contains(other, "flush") {
		t.Errorf("a figure that writes nothing has a flush: %s", other)
	}
	card := text(p, "#durability .card")
	for _, want := range []string{"DISPROVED", "cache=unsafe", "A flush costs 0.04 ms there", "power cuts 30"} {
		if !strings.Contains(card, want) {
			t.Errorf("%q is not in:\n%s", want, card)
		}
	}
}

// testHover moves the pointer over values of charts and reads what they say.
func testHover(t *testing.T, p *chromium.Tab) {
	for chart, want := range map[string]string{"forest-cpu": "cpu.prime", "heat-fs.matrix": "records",
		"curve-fs.randread": "KiB", "cost-fs.": "the model says", "disk-vm": "of the disk",
		"flame-cpu.prime": "200 µs in vm"} {
		drawn(p, `figure[data-chart^="`+chart+`"]`)
		shown := false
		// Charts near it that are drawn a moment later may move it away from under the pointer.
		for end := time.Now().Add(3 * time.Minute); !shown && time.Now().Before(end); {
			at := chromium.Eval[[]float64](p, `(() => { const f = document.querySelector('figure[data-chart^="`+chart+
				`"]'); f.scrollIntoView({behavior: "instant", block: "center"});
				const svg = f.querySelector("svg.chart"); svg.focus(); svg.dispatchEvent(new KeyboardEvent("keydown", {key: "Home", bubbles: true}));
				const b = svg.querySelector(".ring").getBoundingClientRect(); svg.blur(); return [b.x + b.width / 2, b.y + b.height / 2]; })()`)
			p.Do("Input.dispatchMouseEvent", map[string]any{"type": "mouseMoved", "x": at[0] + 2, "y": at[1] + 1}, nil)
			shown = chromium.Eval[bool](p,
				`new Promise(done => setTimeout(() => { const t = document.querySelector('figure[data-chart^="`+chart+
					`"] .tip'); done(!t.hidden && t.innerText.includes("`+want+`")); }, 50))`)
		}
		if !shown {
			t.Fatalf("the pointer shows no value of %s", chart)
		}
		p.Do("Input.dispatchMouseEvent", map[string]any{"type": "mouseMoved", "x": 2, "y": 2}, nil)
		p.Until("the value goes with the pointer",
			`document.querySelector('figure[data-chart^="`+chart+`"] .tip').hidden`)
	}
}

// TestBarrenPage holds that what did not open is said once, and what did not run is folded away.
func TestBarrenPage(t *testing.T) {
	c := browser(t)
	s := scene{targets: []string{"host", "box", "vm", "vm:9p"},
		workloads: work("cpu.prime", "memory.latency", "fs.seqwrite fsync=end", "fs.randread"), blocks: 15}
	s.cost = func(string, string) (float64, float64) { return 2, 0.02 }
	s.tweak = func(in *verdict.Input) {
		e := in.Environments
		e[2].Error = &record.Failure{Kind: "open", Message: "vm: no kernel for the micro-VM; get one: tare guest fetch"}
		e[3].Of, e[3].Error = "vm", &record.Failure{Kind: "open", Message: "vm:9p: its environment did not open"}
		keep := in.Trials[:0]
		for _, x := range in.Trials {
			if x.Target != "vm" && x.Target != "vm:9p" && x.Workload != "memory.latency" &&
				x.Workload != "fs.randread" {
				keep = append(keep, x)
			}
		}
		in.Trials = keep
	}
	p := c.Open(pageFile(t, NewModel(s.result())), 1280, 900)
	p.Until("the answer is there", `!!document.querySelector("#answer .said strong")`)
	answer := text(p, "#answer")
	if n := strings.Count(answer, "no kernel for the micro-VM"); n != 1 {
		t.Errorf("the reason stands %d times:\n%s", n, answer)
	}
	if !strings.Contains(answer, "vm could not be opened, so neither could vm:9p") {
		t.Errorf("answer:\n%s", answer)
	}
	if got := text(p, "#workloads .never-run summary"); got != "2 workloads of the plan were not run" {
		t.Errorf("folded workloads: %q", got)
	}
	if n := chromium.Eval[int](p, `document.querySelectorAll("#workloads details.workload").length`); n != 2 {
		t.Errorf("%d workloads are listed, want 2", n)
	}
	if got := text(p, "#forest .left-out summary"); !strings.Contains(got, "without a row: not run in") {
		t.Errorf("cells without a row: %q", got)
	}
	if n := chromium.Eval[int](p, `document.querySelectorAll("#forest svg text.none").length`); n != 0 {
		t.Errorf("%d rows hold nothing", n)
	}
	p.Shoot("barren", true)
	p.Clean()
}

// TestJSONSections holds that what was asked for beyond the ratios is in the JSON, as its schema says.
func TestJSONSections(t *testing.T) {
	var b bytes.Buffer
	if err := JSON(&b, pageModel()); err != nil {
		t.Fatal(err)
	}
	validate(t, reportSchema(t), b.Bytes())
	for _, want := range []string{`"normal": {`, `"worth": {`, `"terms": [`, `"break_even_day": "`, `"disks": [`,
		`"place": [`, `"frames": [`, `"writes": true`, `"tests": [`} {
		if !bytes.Contains(b.Bytes(), []byte(want)) {
			t.Errorf("%s is not in the JSON report", want)
		}
	}
}
