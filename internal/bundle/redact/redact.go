// Package redact writes a copy of a bundle in which names are replaced by pseudonyms, so that it can be given away.
package redact

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"

	"tare/internal/bundle"
	"tare/internal/lab/env"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
)

// Secrets are names that redaction cannot know from the bundle alone.
type Secrets struct {
	Hosts []string // host names, such as that of the machine that packs
	Users []string // user names
	Words []string // anything else that must not be seen: project names, customers
}

// Bundle writes a copy of the bundle in dir to the new folder out, in which the names of hosts and users, paths that
// not every system has, IP and MAC addresses, UUIDs, serial numbers and machine ids are replaced by pseudonyms, the
// same one for the same thing in every file. The copy verifies, and its manifest says that it was redacted. Figures,
// checks of equal work and the run id stay as they are.
//
// It finds what has a form (an address, a path, USER@HOST) or a place (the host name among the facts, a driver's
// settings), and what s names. It cannot know that a word in a command's output is somebody's name: look the copy
// through before giving it away.
func Bundle(dir, out string, s Secrets) error {
	if err := bundle.Rewrite(dir, out, &editor{secrets: s, mask: newMask()}); err != nil {
		return fmt.Errorf("redact bundle %s: %w", dir, err)
	}
	return nil
}

// editor replaces names in a copy of a bundle.
type editor struct {
	secrets Secrets
	mask    *mask
}

// Learn reads all names first: one that is known from the last file must be replaced in the first.
func (e *editor) Learn(b *bundle.Bundle, evidence iter.Seq2[[]byte, error]) error {
	for _, h := range e.secrets.Hosts {
		e.mask.host(h)
	}
	for _, u := range e.secrets.Users {
		e.mask.user(u)
	}
	for _, w := range e.secrets.Words {
		e.mask.word(w)
	}
	if s := b.Manifest.Shard; s != nil && s.Host != "" {
		e.mask.learn(s.Host) // it may be USER@HOST:PORT
		e.mask.host(s.Host)
	}
	e.mask.spareGiven(b.Environments)
	e.mask.learnPlan(b.Plan)
	for i := range b.Environments {
		e.mask.learnEnvironment(&b.Environments[i])
	}
	for line, err := range evidence {
		if err != nil {
			return err
		}
		e.mask.learn(string(line))
	}
	for t, err := range b.Trials() {
		if err != nil {
			return err
		}
		t.Metrics, t.Samples = nil, nil
		loadFigures(t, nil)
		e.mask.learnValue(reflect.ValueOf(t).Elem())
	}
	e.mask.seal()
	return nil
}

// Text replaces every name in s.
func (e *editor) Text(s string) string { return e.mask.text(s) }

// Counts says how many things of each class were replaced.
func (e *editor) Counts() map[string]int { return e.mask.counts() }

// Plan replaces what a person wrote into the plan, and leaves the names of drivers and workloads.
func (e *editor) Plan(p *plan.Plan) {
	m := e.mask
	p.Slurm = nil // accounts and partitions name people and places, and nothing that was measured
	p.Name, p.Question, p.Baseline = m.text(p.Name), m.text(p.Question), m.text(p.Baseline)
	for i := range p.Targets {
		e := &p.Targets[i]
		maskSpec(&e.Spec, m)
		e.Name, e.From, e.Text = m.text(e.Name), m.text(e.From), e.Spec.String()
		e.Of, e.Against = m.text(e.Of), m.text(e.Against)
		e.Like, e.Beside = m.text(e.Like), m.text(e.Beside)
	}
	if p.Energy != nil && len(p.Energy.Meter) > 0 {
		p.Energy = &plan.Energy{From: p.Energy.From, Meter: []string{"meter"}} // its command may hold a secret
	}
	if p.Copies != nil {
		for i, name := range p.Copies.Targets {
			p.Copies.Targets[i] = m.text(name)
		}
	}
	for i := range p.Beside {
		n := &p.Beside[i]
		n.Name, n.Label = m.text(n.Name), m.text(n.Label)
		for k, v := range n.Params {
			n.Params[k] = m.text(v)
		}
		in := map[string]string{}
		for target, place := range n.In {
			in[m.text(target)] = m.text(place)
		}
		n.In = in
	}
	for i := range p.Workloads {
		w := &p.Workloads[i]
		w.Label, w.Baseline = m.text(w.Label), m.text(w.Baseline)
		for k, v := range w.Params {
			w.Params[k] = m.text(v)
		}
		vary := map[string]workload.Params{}
		for target, params := range w.Vary {
			for k, v := range params {
				params[k] = m.text(v)
			}
			vary[m.text(target)] = params
		}
		if w.Vary != nil {
			w.Vary = vary
		}
		m.value(reflect.ValueOf(w.Targets))
		work := map[string]int64{}
		for target, n := range w.Work {
			work[m.text(target)] = n
		}
		if w.Work != nil {
			w.Work = work
		}
	}
}

// Environment takes the spec apart first: in its text, names stand next to %XX escapes.
func (e *editor) Environment(r *record.Environment) {
	text := r.Spec
	e.mask.value(reflect.ValueOf(r).Elem())
	r.Inside.Hostname, r.Outside.Hostname = e.mask.hostname(r.Inside.Hostname), e.mask.hostname(r.Outside.Hostname)
	if s, err := env.ParseSpec("x=" + text); err == nil {
		maskSpec(&s, e.mask)
		r.Spec = s.String()
	}
}

func maskSpec(s *env.Spec, m *mask) {
	s.Name, s.Arg = m.text(s.Name), m.text(s.Arg)
	for k, v := range s.Settings { // whose names the driver gave
		s.Settings[k] = m.text(v)
	}
}

// Trial leaves the names of metrics alone, which the code of the workloads gives.
func (e *editor) Trial(t *record.Trial) {
	metrics, samples := t.Metrics, t.Samples
	t.Metrics, t.Samples = nil, nil
	t.Shown = nil // parts of pages, which may name anybody
	of := loadFigures(t, nil)
	e.mask.value(reflect.ValueOf(t).Elem())
	t.Metrics, t.Samples = metrics, samples
	loadFigures(t, of)
}

// loadFigures sets the figures of the hosts that offered a trial's load, and returns what they were.
func loadFigures(t *record.Trial, to []map[string]float64) (were []map[string]float64) {
	if t.Load == nil {
		return nil
	}
	for i := range t.Load.Hosts {
		h := &t.Load.Hosts[i]
		were = append(were, h.Metrics)
		if h.Metrics = nil; i < len(to) {
			h.Metrics = to[i]
		}
	}
	return were
}

// value replaces in every string that v holds, keys of maps included. v is settable where it is not a map or a slice.
func (m *mask) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(m.text(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			m.value(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Field(i).CanSet() {
				m.value(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			m.value(v.Index(i))
		}
	case reflect.Map:
		m.maskMap(v)
	}
}

func (m *mask) maskMap(v reflect.Value) {
	if v.IsNil() || v.Type().Key().Kind() != reflect.String || v.Type().Elem().Kind() != reflect.String {
		return
	}
	type pair struct{ key, value string }
	var pairs []pair
	for it := v.MapRange(); it.Next(); {
		pairs = append(pairs, pair{it.Key().String(), it.Value().String()})
	}
	v.Clear()
	// In a fixed order, so that the same bundle gives the same pseudonyms.
	slices.SortFunc(pairs, func(a, b pair) int { return strings.Compare(a.key, b.key) })
	for _, p := range pairs {
		v.SetMapIndex(reflect.ValueOf(m.text(p.key)).Convert(v.Type().Key()),
			reflect.ValueOf(m.text(p.value)).Convert(v.Type().Elem()))
	}
}

// known tells by the name of a fact that its value identifies a machine.
func known(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"serial", "machine_id", "machine-id", "uuid", "wwn", "boot_id", "asset_tag"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
