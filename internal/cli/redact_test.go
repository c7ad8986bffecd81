package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/internal/bundle"
	"tare/internal/bundle/redact"
	drivers "tare/internal/lab/driver/all"
	"tare/internal/lab/env"
	"tare/internal/measure/workload"
	kinds "tare/internal/measure/workload/all"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/show/report"
)

// TestRedactedReports holds that what a run knows of its users and machines is in no form of a redacted bundle's
// report.
func TestRedactedReports(t *testing.T) {
	secrets := []string{"frank", "prod-cluster", "payments", "jane", "bastion", "nas01", "acme", "leo", "nora",
		"myhostx", "525400aabbcc", "1a2b3c4d", "hal9000"}
	text := "jane@bastion:/data/leo and nas01.eu.acme.example:/mnt/customers/nora, 525400aabbcc on hal9000 at " +
		"ip=10.1.1.2::10.1.1.1:255.0.0.0:myhostx:eth0 root=PARTUUID=1a2b3c4d-02"
	spec := env.Spec{Name: "kube", Driver: "kubectl", Arg: "payments-0",
		Settings: map[string]string{"context": "frank@prod-cluster", "dir": "/data/leo"}}
	p := &plan.Plan{Schema: 1, Name: "what " + spec.Arg + " costs", Question: text, Baseline: "host", Seed: 7,
		Mode: plan.Quick, Trial: time.Second, Sessions: 1, Looks: []int{10},
		Alpha: 0.05, LookAlpha: 0.03, Margin: 0.02, TailMargin: 0.05, Precision: 0.01,
		Targets: []plan.Target{{Name: "host", Spec: env.Spec{Name: "host", Driver: "local"}, Text: "local"},
			{Name: spec.Name, Spec: spec, Text: spec.String()}},
		Workloads: []plan.Workload{{Label: "make -C /data/leo", Kind: "cpu.prime",
			Params: workload.Params{"max": "10"}}}}
	dir := filepath.Join(t.TempDir(), "b")
	w, err := bundle.Create(dir, "0c86ada23d25", p)
	if err != nil {
		t.Fatal(err)
	}
	facts := record.Facts{OS: "linux", Kernel: "6.1.0", Hostname: "hal9000",
		WorkDir: "/data/leo/tare-0c86ada23d25-913566014", WorkFS: text, Command: []string{"ssh", "jane@bastion"},
		Extra: map[string]string{"net.mac": "525400aabbcc", "kernel.cmdline": text,
			"work.source": "nas01:/exports/leo"}}
	targets := []record.Environment{{Session: 1, Target: record.Target{Name: "host", Spec: "local", Inside: facts,
		Outside: facts}},
		{Session: 1, Target: record.Target{Name: spec.Name, Spec: spec.String(), Inside: facts, Outside: facts,
			Retries: []record.Failure{{Kind: "open", Message: text, Evidence: text}},
			Files: record.Files{Card: []record.Property{{Name: "inotify", Title: "events", Answer: "yes",
				Rating: "good", Detail: text}},
				Durability: &record.Durability{Verdict: record.Untested, Class: "unknown", Text: text,
					Evidence: []string{text}}}}}}
	if err := w.Environments(targets); err != nil {
		t.Fatal(err)
	}
	for block := range 11 {
		for i, slot := range []string{"host", "host", spec.Name} {
			tr := &record.Trial{Session: 1, Block: block, Workload: p.Workloads[0].Label, Target: slot, Work: 100,
				Start: time.Unix(1e9, 0).UTC(), Position: i, AgentNS: int64(1e9 + block + i),
				ControllerNS: int64(1e9 + block + i),
				Figures: record.Figures{Metrics: map[string]float64{"events": 1.5},
					Warnings: []record.Warning{{Code: "slow", Text: text, Remedy: text}},
					State:    map[string]string{"peer": text}}}
			if i == 1 {
				tr.Slot = record.NullSlot
			}
			if block == 5 && i == 2 {
				tr.Metrics, tr.Error = nil, &record.Failure{Kind: "measure", Message: text, Evidence: text}
			}
			if err := w.Append(tr); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := w.Evidence("kube-payments-0.txt", []byte(text+"\nhello from nas01, jane\n")); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(bundle.Finished, 3); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "public")
	if err := redact.Bundle(dir, out, redact.Secrets{}); err != nil {
		t.Fatal(err)
	}
	a := &app{console: console{getenv: os.Getenv, outFD: -1, errFD: -1},
		catalog: catalog{drivers: drivers.Drivers(), kinds: kinds.Kinds()}}
	b, err := a.load(out)
	if err != nil || b.damage != nil || len(b.result.Targets) != 2 {
		t.Fatalf("%+v, %v", b, err)
	}
	for _, f := range report.Renderers() {
		var page bytes.Buffer
		format, m := f.Name, report.NewModel(b.result)
		m.Trials, m.Plan, m.Bundle = b.trials, b.Plan, out
		if err := a.print(&page, m, f.Render, printOptions{details: true}); err != nil {
			if format == "text" || format == "json" {
				t.Errorf("%s: %v", format, err)
			}
			continue // a build without its page, and a form that wants other work
		}
		for _, s := range secrets {
			if strings.Contains(strings.ToLower(page.String()), s) {
				at := strings.Index(strings.ToLower(page.String()), s)
				t.Errorf("%s has %q: %q", format, s, page.String()[max(0, at-50):min(page.Len(), at+50)])
			}
		}
	}
	// The evidence block is redacted without a word, unless names are asked for.
	code, block, said := reported(t, []string{dir, "--format", "issue", "--redact-word", "costs"})
	if code != exitOK || !strings.Contains(string(block), "anon-word-") ||
		!strings.Contains(string(block), "replaced by pseudonyms") {
		t.Errorf("exit code %d, %s\n%s", code, said, block)
	}
	for _, s := range secrets {
		if strings.Contains(strings.ToLower(string(block)), s) {
			t.Errorf("the evidence block has %q:\n%s", s, block)
		}
	}
	if code, block, said = reported(t, []string{dir, "--format", "issue", "--no-redact"}); code != exitOK ||
		!strings.Contains(string(block), "prod-cluster") || strings.Contains(string(block), "pseudonyms") {
		t.Errorf("--no-redact: exit code %d, %s\n%s", code, said, block)
	}
	// A bundle that was edited is no evidence.
	file := filepath.Join(dir, bundle.EvidenceDir, "kube-payments-0.txt")
	if err := os.WriteFile(file, []byte("edited"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, block, said = reported(t, []string{dir, "--format", "issue"}); code != exitFailed || len(block) > 0 ||
		!strings.Contains(string(said), "--no-redact") {
		t.Errorf("an edited bundle: exit code %d, %s\n%s", code, said, block)
	}
}
