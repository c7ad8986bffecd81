package gallery

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"tare/internal/bundle"
	"tare/internal/lab/env"
	"tare/internal/measure/workload"
	kinds "tare/internal/measure/workload/all"
	"tare/internal/plan"
	"tare/internal/record"
)

var allKinds = kinds.Kinds()

func kindOf(name string) (*workload.Kind, bool) {
	for i := range allKinds {
		if allKinds[i].Name == name {
			return &allKinds[i], true
		}
	}
	return nil, false
}

// fake is a packed bundle made of synthetic trials, without a disk: a thousand of them take a moment.
type fake struct {
	run      string
	question string
	day      int
	targets  map[string]float64 // cost by driver; the host is always there
	work     []string           // labels that begin with a kind
	cpu      string
	kernel   string
	host     string // a name that redaction must replace
	blocks   int
	redacted bool
	running  bool
	after    func(files map[string][]byte) // changes files before their digests are taken
	forge    func(files map[string][]byte) // changes them when the digests are taken
	noise    float64
	emulated bool
}

// drivers are those of fakes in the order of their columns.
var drivers = []string{"namespace", "docker", "qemu"}

func (f *fake) plan() *plan.Plan {
	p := &plan.Plan{Schema: 1, Question: f.question, Baseline: "host", Seed: 7, Mode: plan.Quick,
		Trial: 300 * time.Millisecond, Sessions: 1, Looks: []int{10}, Alpha: 0.05, LookAlpha: 0.05, Margin: 0.02,
		TailMargin: 0.05, Precision: 0.01}
	p.Targets = append(p.Targets, plan.Target{Name: "host", Spec: env.Spec{Name: "host", Driver: "local"},
		Text: "local"})
	for _, d := range drivers {
		if f.targets[d] > 0 {
			p.Targets = append(p.Targets, plan.Target{Name: d, Spec: env.Spec{Name: d, Driver: d}, Text: d})
		}
	}
	for _, label := range f.work {
		p.Workloads = append(p.Workloads, plan.Workload{Label: label, Kind: label[:kindEnd(label)],
			Params: paramsOf(label)})
	}
	return p
}

// paramsOf are those that a label names behind its kind.
func paramsOf(label string) workload.Params {
	p := workload.Params{}
	for _, word := range strings.Fields(label)[1:] {
		k, v, _ := strings.Cut(word, "=")
		p[k] = v
	}
	return p
}

func kindEnd(label string) int {
	for i := range label {
		if label[i] == ' ' {
			return i
		}
	}
	return len(label)
}

// files are those of the bundle.
func (f *fake) files(t testing.TB) map[string][]byte {
	t.Helper()
	p := f.plan()
	out := map[string][]byte{bundle.PlanFile: plan.Marshal(p)}
	var envs []record.Environment
	for i := range p.Targets {
		facts := record.Facts{OS: "linux", Arch: "amd64", Kernel: f.kernel, Distro: "Debian GNU/Linux 12 (bookworm)",
			Hostname: f.host, CPU: f.cpu, Cores: 2, Threads: 4, MemoryBytes: 8 << 30,
			Emulated: f.emulated && p.Targets[i].Name == "qemu"}
		envs = append(envs, record.Environment{Session: 1, OpenNS: 1e8, Target: record.Target{Name: p.Targets[i].Name,
			Spec: p.Targets[i].Text, Inside: facts, Outside: record.Facts{OS: "linux", Arch: "amd64"}}})
	}
	src, err := json.MarshalIndent(envs, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	out[bundle.EnvironmentsFile] = src
	trials, count, head := f.trials(t, p)
	out[bundle.TrialsFile] = trials
	if f.after != nil {
		f.after(out)
	}
	m := bundle.Manifest{Schema: 1, Version: "0.1.0", Build: "test", RunID: f.run,
		Created: time.Date(2026, 1, 1, 6, 0, 0, 0, time.UTC).AddDate(0, 0, f.day), State: bundle.Finished, Seconds: 61}
	if f.redacted {
		m.Redacted = map[string]int{"host names": 1}
	}
	if f.running {
		m.State = bundle.Running
	} else {
		m.Trials, m.Head = count, head
		for _, name := range []string{bundle.EnvironmentsFile, bundle.PlanFile, bundle.TrialsFile} {
			sum := sha256.Sum256(out[name])
			m.Files = append(m.Files, bundle.File{Path: name, Size: int64(len(out[name])),
				SHA256: hex.EncodeToString(sum[:])})
		}
	}
	if out[bundle.ManifestFile], err = json.MarshalIndent(&m, "", "  "); err != nil {
		t.Fatal(err)
	}
	if f.forge != nil {
		f.forge(out)
	}
	return out
}

// trials are the lines of the trials, chained as package bundle documents it.
func (f *fake) trials(t testing.TB, p *plan.Plan) (lines []byte, count int, head string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(f.day), 7))
	sum := sha256.Sum256([]byte("tare trials 1\n" + f.run))
	head = hex.EncodeToString(sum[:])
	var b bytes.Buffer
	noise := f.noise
	if noise == 0 {
		noise = 0.002
	}
	for block := range f.blocks + 1 {
		for i := range p.Workloads {
			w := &p.Workloads[i]
			k, ok := kindOf(w.Kind)
			if !ok {
				t.Fatalf("no kind %s", w.Kind)
			}
			for j := -1; j < len(p.Targets); j++ { // -1 is the hidden slot of the baseline
				if j < 0 && block == 0 {
					continue
				}
				target, slot, cost := p.Targets[max(0, j)].Name, "", 1.0
				if j < 0 {
					slot = record.NullSlot
				} else if j > 0 {
					cost = f.targets[target]
				}
				count++
				tr := &record.Trial{Seq: count, Session: 1, Block: block, Workload: w.Label, Target: target, Slot: slot,
					Position: j + 1, Work: 1000, Start: time.Unix(1e9, 0).UTC(), AgentNS: 3e8, ControllerNS: 3e8 + 1e5,
					RTTNS: 1e5, Figures: record.Figures{Metrics: map[string]float64{},
						Checks: map[string]string{"n": "1228"}}}
				x := cost * math.Exp(noise*rng.NormFloat64())
				for _, m := range k.Metrics {
					tr.Metrics[m.Name] = m.Value(m.Cost(1000) * x)
				}
				body, err := json.Marshal(tr)
				if err != nil {
					t.Fatal(err)
				}
				sum := sha256.Sum256(append([]byte(head), body...))
				head = hex.EncodeToString(sum[:])
				b.Write(body[:len(body)-1])
				b.WriteString(`,"chain":"` + head + `"}` + "\n")
			}
		}
	}
	return b.Bytes(), count, head
}

// order is that of the files in an archive.
var order = []string{bundle.ManifestFile, bundle.PlanFile, bundle.EnvironmentsFile, bundle.TrialsFile}

// packed is the bundle as one file.
func (f *fake) packed(t testing.TB) []byte {
	t.Helper()
	files := f.files(t)
	var entries []any
	for _, name := range order {
		entries = append(entries, name, string(files[name]))
	}
	return archive(t, entries...)
}

// archive packs names and contents.
func archive(t testing.TB, entries ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	for i := 0; i < len(entries); i += 2 {
		name, body := entries[i].(string), entries[i+1].(string)
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(body)),
			Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// put writes a file below a folder, and returns its path.
func put(t testing.TB, dir, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// plain is a bundle with something to see in it.
func plain(i int) *fake {
	return &fake{run: fmt.Sprintf("run-%04d", i), day: i, blocks: 10, redacted: true,
		targets: map[string]float64{"namespace": 1, "docker": 1.04 + 0.01*float64(i%4)},
		work:    []string{"cpu.prime max=2000", "syscall op=null"},
		cpu:     []string{"AMD EPYC 7B13", "Intel(R) Xeon(R) CPU @ 2.60GHz", "Apple M2"}[i%3],
		kernel:  []string{"6.1.0-18-amd64", "5.15.0-generic"}[i/7%2], host: "anon-host-1"}
}

// options are those of a test.
func options(t testing.TB, dir string, bundles ...string) Options {
	return Options{Dir: dir, Bundles: bundles, Kinds: kindOf, Scratch: t.TempDir()}
}
