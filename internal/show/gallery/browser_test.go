package gallery

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/show/report/chromium"
)

// showSite is a site with some of everything, and with texts that try to become more than text.
func showSite(t *testing.T) string {
	t.Helper()
	tmp := t.TempDir()
	var bundles []string
	for i := range 130 {
		f := plain(i)
		switch {
		case i%10 == 3:
			f.targets["qemu"] = 2.4 + 0.05*float64(i%7)
			f.question = "What does a virtual machine cost this build?"
		case i == 40:
			f.question = `"><img src=x onerror="window.owned=1"></script><script>window.owned=1</script>`
			f.cpu = `<script>window.owned=2</script>`
			f.kernel = "javascript:alert(1)"
		case i >= 90:
			f.targets["docker"] += 0.12 // a change of level
		}
		bundles = append(bundles, put(t, tmp, fmt.Sprintf("%d.tare", i), f.packed(t)))
	}
	site := filepath.Join(tmp, "site")
	o := options(t, site, bundles...)
	o.Title = "What environments cost"
	if s := build(t, o); s.Results != 130 || len(s.Skipped) > 0 {
		t.Fatalf("%+v", s)
	}
	return site
}

// TestSiteInBrowser opens the site from the disk in a real Chromium, searches, filters, and follows its links.
func TestSiteInBrowser(t *testing.T) {
	c := chromium.Start(t)
	site := showSite(t)
	p := c.Open(filepath.Join(site, "index.html"), 1280, 900)
	p.Until("the search is there", `!document.getElementById("find").hidden`)
	shown := `document.querySelectorAll("#list li.result").length`
	if n := chromium.Eval[int](p, shown); n != 100 {
		t.Errorf("%d results are shown first", n)
	}
	said := func() string { return chromium.Eval[string](p, `document.getElementById("count").textContent`) }
	if s := said(); s != "130 results" {
		t.Errorf("it says %q", s)
	}
	chromium.Eval[any](p, `document.getElementById("more").click()`)
	if n := chromium.Eval[int](p, shown); n != 130 {
		t.Errorf("%d results are shown after all", n)
	}
	search := func(words string) {
		chromium.Eval[any](p, fmt.Sprintf(`(() => { const e = document.getElementById("words"); e.value = %q;
			e.dispatchEvent(new Event("input", {bubbles: true})); })()`, words))
	}
	search("Virtual  MACHINE")
	if n := chromium.Eval[int](p, shown); n != 13 || said() != "13 of 130 results" {
		t.Errorf("%d results of a search, %q", n, said())
	}
	pick := func(key, value string) {
		chromium.Eval[any](p, fmt.Sprintf(`(() => { const e = document.getElementById("pick-%s"); e.value = %q;
			e.dispatchEvent(new Event("change", {bubbles: true})); })()`, key, value))
	}
	pick("p", "AMD EPYC 7B13")
	amd := chromium.Eval[int](p, shown)
	pick("k", "Linux 6.1")
	if both := chromium.Eval[int](p, shown); amd != 5 || both != 2 {
		t.Errorf("%d of one processor, %d of one kernel as well", amd, both)
	}
	if hash := chromium.Eval[string](p, `location.hash`); !strings.Contains(hash, "q=Virtual") ||
		!strings.Contains(hash, "k=Linux+6.1") {
		t.Errorf("the address does not say what is shown: %s", hash)
	}
	chromium.Eval[any](p, `document.getElementById("clear").click()`)
	pick("e", "qemu")
	if n := chromium.Eval[int](p, shown); n != 13 {
		t.Errorf("%d results in qemu", n)
	}
	search("nothing has this")
	if n := chromium.Eval[int](p, shown); n != 0 || said() != "0 of 130 results" {
		t.Errorf("%d results of nothing, %q", n, said())
	}
	// An address that was passed on.
	p2 := c.Open("file://"+filepath.Join(site, "index.html")+"#w=syscall&q=virtual", 900, 700)
	p2.Until("a filtered list was opened", shown+` === 13 && document.getElementById("pick-w").value === "syscall"`)
	// Hostile texts are texts.
	chromium.Eval[any](p, `document.getElementById("clear").click()`)
	search("onerror")
	if !chromium.Eval[bool](p, `document.querySelector("#list h2 a").textContent.includes("<img src=x")`) {
		t.Error("the hostile title is not shown as it is")
	}
	hostile := chromium.Eval[string](p, `document.querySelector("#list h2 a").href`)
	p.Clean()
	p3 := c.Open(hostile, 1280, 900)
	for _, tab := range []*chromium.Tab{p, p3} {
		if chromium.Eval[bool](tab, `"owned" in window || !!document.querySelector("#page img, #page script")`) {
			t.Error("a text became markup")
		}
	}
	if chromium.Eval[int](p3, `document.querySelectorAll("table.costs tbody tr").length`) < 4 {
		t.Error("the result's page has no costs")
	}
	// Every link of the pages leads somewhere.
	for _, page := range []string{"index.html", "work.html", "lists/1.html", "lists/2.html"} {
		tab := c.Open(filepath.Join(site, filepath.FromSlash(page)), 1000, 800)
		for _, to := range chromium.Eval[[]string](tab,
			`[...new Set([...document.querySelectorAll("a[href]")].map(a => a.href.split("#")[0]))]`) {
			path, ok := strings.CutPrefix(to, "file://"+site+"/")
			if _, there := tree(t, site)[path]; !ok || !there {
				t.Errorf("%s: %s leads nowhere", page, to)
			}
		}
		tab.Clean()
		tab.Close()
	}
	// The policy is in force.
	if got := chromium.Eval[string](p3,
		`fetch("https://evil.example/").then(() => "fetched", e => e.name)`); got != "TypeError" {
		t.Errorf("fetch: %s", got)
	}
	if got := chromium.Eval[string](p3,
		`(() => { try { document.body.innerHTML = "<b>x</b>"; return "markup"; } catch (e) { return e.name; } })()`); got != "TypeError" {
		t.Errorf("markup made from text: %s", got)
	}
	p2.Clean()
}

// TestSiteLooks keeps pictures for people to look at, and holds that nothing is wider than the window.
func TestSiteLooks(t *testing.T) {
	c := chromium.Start(t)
	site := showSite(t)
	first := func(pattern string) string {
		found, err := filepath.Glob(filepath.Join(site, filepath.FromSlash(pattern)))
		if err != nil || len(found) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		return found[0]
	}
	ranking := strings.TrimSuffix(first("work/cpu-prime-*-trends.html"), "-trends.html") + ".html"
	for _, page := range []struct{ name, file string }{{"gallery-index", first("index.html")},
		{"gallery-result", first("results/run-0113-*.html")}, {"gallery-work", first("work.html")},
		{"gallery-ranking", ranking}, {"gallery-trends", first("work/cpu-prime-*-trends.html")}} {
		for _, look := range []struct {
			name, scheme string
			width        int
		}{{"light", "light", 1280}, {"dark", "dark", 1280}, {"narrow", "light", 390}} {
			p := c.Open(page.file, look.width, 900)
			p.Do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
				{"name": "prefers-color-scheme", "value": look.scheme}}}, nil)
			p.Shoot(page.name+"-"+look.name, page.name == "gallery-result")
			if wide := chromium.Eval[string](p,
				`[...document.querySelectorAll("main *, header *")].filter(e => !e.closest(".scroll, svg, .unseen") && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.tagName + "." + e.getAttribute("class") + " " + e.textContent.slice(0, 40)).slice(0, 5).join("\n")`); wide != "" {
				t.Errorf("%s, %s: wider than the window: %s", page.name, look.name, wide)
			}
			ground := chromium.Eval[string](p, `getComputedStyle(document.body).backgroundColor`)
			want := map[string]string{"light": "rgb(253, 253, 251)", "dark": "rgb(22, 22, 20)"}[look.scheme]
			if ground != want {
				t.Errorf("%s, %s: the page's ground is %s, want %s", page.name, look.name, ground, want)
			}
			p.Clean()
			p.Close()
		}
	}
}
