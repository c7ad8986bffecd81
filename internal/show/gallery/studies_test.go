package gallery

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/internal/bundle"
	"tare/internal/plan/study"
	"tare/internal/show/report/chromium"
)

// TestStudies builds the project's own gallery, of a run of each study, and looks at it in a real Chromium.
func TestStudies(t *testing.T) {
	bundles, err := filepath.Glob("../../../testdata/studies/*" + bundle.Ext)
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, b := range bundles {
		there = append(there, strings.TrimSuffix(filepath.Base(b), bundle.Ext))
	}
	var names []string
	for _, s := range study.All() {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	if !slices.Equal(there, names) {
		t.Errorf("testdata/studies has %q, the studies are %q", there, names)
	}
	site := filepath.Join(t.TempDir(), "site")
	o := options(t, site, bundles...)
	o.Title = "What environments cost"
	if s := build(t, o); s.Results != len(bundles) || len(s.Skipped) > 0 {
		t.Fatalf("%+v", s)
	}
	for name, content := range tree(t, site) {
		if !strings.HasSuffix(name, bundle.Ext) && len(content) >= maxPage {
			t.Errorf("%s has %d bytes", name, len(content))
		}
	}

	c := chromium.Start(t)
	p := c.Open(filepath.Join(site, "index.html"), 1280, 900)
	p.Until("the search is there", `!document.getElementById("find").hidden`)
	p.Shoot("studies-index", true)
	for _, s := range study.All() {
		chromium.Eval[any](p, fmt.Sprintf(`(() => { const e = document.getElementById("words"); e.value = %q;
			e.dispatchEvent(new Event("input", {bubbles: true})); })()`, s.Question))
		found := chromium.Eval[[]string](p, `[...document.querySelectorAll("#list li.result h2 a")].map(a => a.href)`)
		if len(found) != 1 {
			t.Errorf("%d results of the search for %q", len(found), s.Question)
			continue
		}
		page := c.Open(found[0], 1280, 900)
		if n := chromium.Eval[int](page, `document.querySelectorAll("table.costs tbody tr").length`); n < 2 {
			t.Errorf("the page of %s has %d costs", s.Name, n)
		}
		page.Shoot("studies-"+s.Name, true)
		page.Clean()
		page.Close()
	}
	p.Clean()
}
