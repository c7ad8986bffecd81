package cli

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/bundle"
	kinds "tare/internal/measure/workload/all"
	"tare/internal/record"
)

// incomplete are the ways in which a bundle lacks what its plan asked for, each made of a whole one.
var incomplete = map[string]func(b *bundle.Bundle, trials []record.Trial) (rest []record.Trial, finished bool){
	"whole": func(_ *bundle.Bundle, all []record.Trial) ([]record.Trial, bool) { return all, true },
	"candidate did not open": func(b *bundle.Bundle, all []record.Trial) ([]record.Trial, bool) {
		unopened(b, "box")
		return only(all, func(t *record.Trial) bool { return t.Target == "host" }), true
	},
	"nothing but a baseline": func(b *bundle.Bundle, _ []record.Trial) ([]record.Trial, bool) {
		unopened(b, "box")
		return nil, true
	},
	"baseline did not open": func(b *bundle.Bundle, _ []record.Trial) ([]record.Trial, bool) {
		unopened(b, "host")
		return nil, false
	},
	"nothing opened": func(b *bundle.Bundle, _ []record.Trial) ([]record.Trial, bool) {
		b.Environments = nil
		return nil, false
	},
	"no trials": func(*bundle.Bundle, []record.Trial) ([]record.Trial, bool) { return nil, true },
	"no work": func(b *bundle.Bundle, _ []record.Trial) ([]record.Trial, bool) {
		for i := range b.Plan.Workloads {
			b.Plan.Workloads[i].Work = nil
		}
		return nil, true
	},
	"warm-ups only": func(_ *bundle.Bundle, all []record.Trial) ([]record.Trial, bool) {
		return only(all, (*record.Trial).Warmup), false
	},
	"one target": func(b *bundle.Bundle, all []record.Trial) ([]record.Trial, bool) {
		b.Plan = b.Plan.Without(map[string]bool{"box": true}, nil)
		b.Environments = b.Environments[:1]
		return only(all, func(t *record.Trial) bool { return t.Target == "host" }), true
	},
	"one block": func(_ *bundle.Bundle, all []record.Trial) ([]record.Trial, bool) {
		return only(all, func(t *record.Trial) bool { return t.Block < 2 }), false
	},
	"cut off in a block": func(_ *bundle.Bundle, all []record.Trial) ([]record.Trial, bool) {
		return all[:len(all)/2+1], false
	},
	"a cell failed": func(_ *bundle.Bundle, all []record.Trial) ([]record.Trial, bool) {
		return failed(all, func(t *record.Trial) bool { return t.Target == "box" }), true
	},
	"everything failed": func(b *bundle.Bundle, all []record.Trial) ([]record.Trial, bool) {
		for i := range b.Plan.Workloads {
			b.Plan.Workloads[i].Work = nil
		}
		return failed(all, func(*record.Trial) bool { return true }), true
	},
	"figures without time": func(_ *bundle.Bundle, all []record.Trial) ([]record.Trial, bool) {
		for i := range all {
			all[i].AgentNS, all[i].ControllerNS, all[i].Work, all[i].Metrics = 0, 0, 0, nil
		}
		return all, true
	},
}

func unopened(b *bundle.Bundle, name string) {
	for i := range b.Environments {
		if b.Environments[i].Name == name {
			b.Environments[i].Error = &record.Failure{Kind: "open", Message: "it is switched off"}
		}
	}
}

func only(all []record.Trial, keep func(*record.Trial) bool) (out []record.Trial) {
	for i := range all {
		if keep(&all[i]) {
			out = append(out, all[i])
		}
	}
	return out
}

func failed(all []record.Trial, is func(*record.Trial) bool) []record.Trial {
	for i := range all {
		if t := &all[i]; is(t) {
			t.Error = &record.Failure{Kind: "measure", Message: "it does not work"}
			t.Figures, t.Work = record.Figures{}, 0
		}
	}
	return all
}

// incompleteBundle makes one of them, of a bundle that an earlier build measured.
func incompleteBundle(t *testing.T, dir, name string) {
	t.Helper()
	a := &app{console: console{err: io.Discard, getenv: func(string) string { return "" }}}
	a.kinds = kinds.Kinds()
	b, err := a.load("../../testdata/bundles/v0.2.0.tare")
	if err != nil {
		t.Fatal(err)
	}
	rest, finished := incomplete[name](b.Bundle, b.trials)
	w, err := bundle.Create(dir, b.Manifest.RunID, b.Plan)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Environments(b.Environments); err != nil {
		t.Fatal(err)
	}
	for i := range rest {
		if err := w.Append(&rest[i]); err != nil {
			t.Fatal(err)
		}
	}
	if finished {
		if err := w.Finish(bundle.Finished, 5); err != nil {
			t.Fatal(err)
		}
	}
}

// TestIncompleteBundles gives bundles that lack what their plan asked for to everything that reads bundles and opens no
// environment: it ends, with a code that it has, and says nothing that is no sentence.
func TestIncompleteBundles(t *testing.T) {
	for name := range incomplete {
		// All of them are some five hundred commands, which takes very long under the race detector.
		if testing.Short() && name != "candidate did not open" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
			incompleteBundle(t, one, name)
			incompleteBundle(t, two, "whole")
			at := func(name string) string { return filepath.Join(dir, name) }
			calls := [][]string{
				{"report", one, "--why", "--details"}, {"report", one, "--per", "core"},
				{"report", one, "--format", "html", "-o", at("page.html")},
				{"report", one, "--format", "xlsx", "-o", at("book.xlsx")},
				{"report", one, "--format", "png", "-o", at("picture.png")},
				{"report", one, "--format", "parquet", "-o", at("data.parquet")},
				{"report", one, "--fail-if", "ratio(box, cpu.prime) > 2.0", "--strict"},
				{"compare", one, two}, {"compare", two, one, "--details"},
				{"compare", one, one, two, "--format", "json"},
				{"verify", one}, {"bundle", "pack", one, "--redact", "-o", at("one.tare")}, {"report", at("one.tare")},
				{"gallery", at("site"), one, two}, {"fleet", "collect", at("fleet"), one, two},
				{"qualify", at("fleet"), "--bundle", one}, {"fleet", "report", at("fleet")},
				{"history", "add", one, two, "--store", at("store")}, {"history", "show", "--store", at("store")},
				{"history", "trend", "cpu.prime", "--store", at("store")},
				{"rerun", one, "--dry-run"}, {"run", "--resume", one, "--dry-run"},
			}
			for _, format := range []string{"text", "json", "markdown", "svg", "csv", "groups-csv", "benchstat",
				"iozone", "junit", "github", "issue"} {
				calls = append(calls, []string{"report", one, "--format", format})
			}
			if name != "whole" && name != "one block" && name != "cut off in a block" {
				calls = append(calls, []string{"why", one}, []string{"why", one, "box"})
			}
			for _, args := range calls {
				code, out := spoken(args)
				text := strings.ReplaceAll(out, dir, "")
				if code < exitOK || code > exitInconclusive || code != exitOK && strings.TrimSpace(text) == "" {
					t.Errorf("%q: exit code %d\n%s", args, code, out)
				}
				for _, never := range []string{"panic", "NaN", "Inf", "%!", "nil", "older tare", "must be at least 1",
					"nothing to fix"} {
					if strings.Contains(text, never) {
						t.Errorf("%q said %q:\n%s", args, never, out)
					}
				}
				if args[0] == "why" && (code == exitOK || !strings.Contains(text, "no ratio") &&
					!strings.Contains(text, "no cell")) {
					t.Errorf("%q: exit code %d, and it said %q", args, code, text)
				}
			}
		})
	}
}

// spoken runs tare as a user does who reads it from a pipe.
func spoken(args []string) (code int, text string) {
	var o bytes.Buffer
	a := &app{console: console{in: strings.NewReader(""), out: &o, err: &o, getenv: func(string) string { return "" },
		outFD: -1, errFD: -1}}
	return a.run(context.Background(), args), o.String()
}
