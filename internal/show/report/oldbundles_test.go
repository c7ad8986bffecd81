package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/bundle"
	"tare/internal/judge/verdict"
	"tare/internal/measure/workload"
	allkinds "tare/internal/measure/workload/all"
)

// TestOldBundles holds that the page gets the same data of the bundles that earlier builds measured as it did then.
// Package cli has the test of the other forms.
func TestOldBundles(t *testing.T) {
	const bundles = "../../../testdata/bundles"
	list, err := os.ReadDir(bundles)
	if err != nil || len(list) < 2 {
		t.Fatalf("%d bundles, %v", len(list), err)
	}
	all := allkinds.Kinds()
	byName := func(name string) (*workload.Kind, bool) {
		for i := range all {
			if all[i].Name == name {
				return &all[i], true
			}
		}
		return nil, false
	}
	for _, e := range list {
		dir, name := filepath.Join(bundles, e.Name()), strings.TrimSuffix(e.Name(), bundle.Ext)
		if name != e.Name() {
			dir = filepath.Join(t.TempDir(), name)
			if err := bundle.Unpack(filepath.Join(bundles, e.Name()), dir); err != nil {
				t.Fatal(err)
			}
		}
		b, err := bundle.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		trials, err := b.Load()
		if err != nil {
			t.Fatal(err)
		}
		h := verdict.Run{ID: b.Manifest.RunID, Version: b.Manifest.Version, Build: b.Manifest.Build,
			Seconds: b.Manifest.Seconds, Finished: true}
		m := NewModel(verdict.Evaluate(verdict.Input{Plan: b.Plan, Environments: b.Environments, Trials: trials,
			Kinds: byName, Run: h}))
		m.Trials, m.Plan, m.Bundle = trials, b.Plan, name
		var page bytes.Buffer
		out := json.NewEncoder(&page)
		out.SetIndent("", " ")
		if err := out.Encode(pageData(m)); err != nil {
			t.Fatal(err)
		}
		out.SetIndent("", "")
		if err := out.Encode(pageTrials(m, nil)); err != nil {
			t.Fatal(err)
		}
		golden(t, "../../../../testdata/reports/"+name+"/page.json", page.Bytes())
	}
}
