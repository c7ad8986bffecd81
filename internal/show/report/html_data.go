package report

import (
	"strconv"
	"time"

	"tare/internal/judge/costper"
	"tare/internal/judge/failif"
	"tare/internal/judge/verdict"
	"tare/internal/plan"
	"tare/internal/record"
)

// pageFormat is the version of the data that the page reads. Page and program are of one build, so a page that finds
// another says so instead of guessing.
const pageFormat = 1

// htmlData is the page's first data block; web/src/data.ts has its other end.
type htmlData struct {
	Format    int                 `json:"format"`
	Result    *verdict.Result     `json:"result"`
	Bundle    string              `json:"bundle"`
	Plan      string              `json:"plan"`
	Seed      string              `json:"seed"` // as text: JavaScript's numbers do not hold 64 bits
	Question  string              `json:"question,omitempty"`
	Started   string              `json:"started,omitempty"` // RFC 3339
	Workloads []htmlWorkload      `json:"workloads"`
	Looks     []int               `json:"looks,omitempty"`
	Precision float64             `json:"precision,omitempty"`
	TrialS    float64             `json:"trial_seconds,omitempty"`
	FailIf    []failif.Outcome    `json:"gates,omitempty"`
	Flames    []record.Flame      `json:"flames,omitempty"`
	Normal    *costper.Table      `json:"normal,omitempty"`
	Worth     *costper.Answers    `json:"worth,omitempty"`
	Signs     map[string]htmlSign `json:"signs"` // by signNames
	Marks     map[string]string   `json:"marks"` // legends
}

// htmlSign is a sign and its legend.
type htmlSign struct {
	Glyph string `json:"glyph"`
	Word  string `json:"word"`
}

// htmlWorkload has the meaning of a workload's label for the page, so that it can put record sizes side by side.
type htmlWorkload struct {
	Label   string            `json:"label"`
	Kind    string            `json:"kind"`
	Params  map[string]string `json:"params"`
	Seconds float64           `json:"seconds,omitempty"` // shortest length of a trial, when not the plan's
}

func pageData(m *Model) *htmlData {
	d := &htmlData{Format: pageFormat, Result: plainResult(m.Result), Bundle: m.Bundle,
		Seed: strconv.FormatUint(m.Run.Seed, 10), Workloads: []htmlWorkload{}, FailIf: m.FailIf, Flames: m.Flames,
		Normal: m.Normal, Worth: m.Worth, Signs: map[string]htmlSign{}, Marks: map[string]string{}}
	for i, g := range glyphs {
		d.Signs[signNames[i]] = htmlSign{g.unicode, g.legend}
	}
	for _, x := range markTexts {
		d.Marks[x.mark] = x.legend
	}
	for i := range m.Trials {
		if t := m.Trials[i].Start; !t.IsZero() {
			d.Started = t.UTC().Format(time.RFC3339)
			break
		}
	}
	p := m.Plan
	if p == nil {
		return d
	}
	d.Plan = string(plan.Marshal(p))
	d.Question, d.Precision, d.TrialS = p.Question, p.Precision, p.Trial.Seconds()
	if p.Sessions < 2 { // several sessions have none but the one at their end
		d.Looks = p.Looks
	}
	for i := range p.Workloads {
		w := &p.Workloads[i]
		d.Workloads = append(d.Workloads, htmlWorkload{Label: w.Label, Kind: w.Kind, Params: w.Params,
			Seconds: w.Trial.Seconds()})
	}
	return d
}
