package plan

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"tare/internal/measure/workload"
	"tare/internal/suggest"
	"tare/internal/unit"
)

// reservedWork are the keys of a workload that are not parameters of its kind. A kind's parameter of such a name can
// only be given below params.
var reservedWork = []string{"kind", "label", "targets", "baseline", "trial", "vary", "work", "params"}

// maxLabel bounds a label, in runes, so that a report keeps its shape.
const maxLabel = 100

func (r *reader) workloads(d *draft, n *node) {
	if n.kind != list || len(n.items) == 0 {
		r.p.add(n.at, "expected a list with at least one workload, such as `- cpu.prime`, found %s", n.kind)
		return
	}
	if len(n.items) > maxWorkloads {
		r.p.add(n.at, "%d workloads are more than %d", len(n.items), maxWorkloads)
		return
	}
	for _, item := range n.items {
		all, targetsAt := r.workload(item)
		for _, w := range all {
			d.Workloads = append(d.Workloads, w)
			d.workAt = append(d.workAt, item.at)
			d.targetsAt = append(d.targetsAt, targetsAt)
		}
	}
	if len(d.Workloads) > maxWorkloads {
		r.p.add(n.at, "the lists and ranges of parameters give %d workloads; at most %d fit a plan", len(d.Workloads),
			maxWorkloads)
	}
}

// workload reads one of the three forms: KIND[:key=value,...], {KIND: {key: value}}, {kind: KIND, key: value}.
// A parameter that is a list or a range of sizes gives a workload for each value.
func (r *reader) workload(n *node) (all []Workload, targetsAt pos) {
	var w Workload
	switch {
	case n.kind == scalar:
		all, err := parseWork(n.text, r.t)
		if err != nil {
			r.p.add(n.at, "%v", err)
		}
		return all, n.at
	case n.kind == null:
		r.p.add(n.at,
			`expected a workload such as cpu.prime, found %s; the workload called null is written "null", in quotes`,
			n.kind)
		return nil, n.at
	case n.kind != mapping:
		r.p.add(n.at, "expected a workload such as cpu.prime, found %s", n.kind)
		return nil, n.at
	}
	kind, kindAt, body := "", n.at, n.keys
	for _, e := range n.keys {
		if e.key == "kind" {
			kind, _ = r.value(e.value, "the name of a kind")
			kindAt = e.value.at
		}
	}
	if kind == "" && len(n.keys) == 1 && n.keys[0].key != "kind" {
		e := n.keys[0]
		kind, kindAt, body = e.key, e.at, e.value.keys
		if e.value.kind == scalar || e.value.kind == list {
			r.p.add(e.value.at, "%s: expected parameters such as { size: 64MiB }, found %s", quote(kind), e.value.kind)
			return nil, n.at
		}
	}
	if kind == "" {
		r.p.add(n.at, "this workload has no kind: write kind: NAME; `tare list workloads` shows them")
		return nil, n.at
	}
	w.Kind = kind
	given, targetsAt, ok := r.workloadKeys(&w, body, n.at)
	k, known := r.lookup(kind, kindAt)
	if !known || !ok {
		return nil, targetsAt
	}
	all = r.sweep(w, k, given, n.at)
	for i := range all {
		if err := all[i].resolveVary(k); err != nil {
			r.p.add(n.at, "vary: %s", oneLine(err.Error()))
			break
		}
	}
	return all, targetsAt
}

func (r *reader) lookup(kind string, at pos) (*workload.Kind, bool) {
	if r.t == nil {
		return nil, true
	}
	k := r.t.kind(kind)
	if k == nil {
		r.p.add(at, "there is no workload %s%s", quote(kind), suggest.MeantOrAll(kind, r.t.kindNames(), "there are:"))
	}
	return k, k != nil
}

// given is a parameter as written.
type given struct {
	name, text string
	at, value  pos
	items      []string // of a list in place of one value
}

func (r *reader) workloadKeys(w *Workload, keys []*entry, at pos) (params []given, targetsAt pos, ok bool) {
	ok, targetsAt = true, at
	param := func(e *entry) {
		var items []string
		text, good := "", true
		if e.value.kind == list && len(e.value.items) > 0 {
			for _, item := range e.value.items {
				v, is := r.value(item, "a value for "+e.key)
				items, good = append(items, v), good && is
			}
			text = items[0]
		} else {
			text, good = r.value(e.value, "a value for "+e.key)
		}
		ok = ok && good
		if slices.ContainsFunc(params, func(g given) bool { return g.name == e.key }) {
			r.p.add(e.at, "%q is given twice", e.key)
			ok = false
			return
		}
		params = append(params, given{e.key, text, e.at, e.value.at, items})
	}
	for _, e := range keys {
		switch e.key {
		case "kind":
		case "label":
			w.Label = r.text(e.value, 4*maxLabel)
			if msg := checkLabel(w.Label); msg != "" {
				r.p.add(e.value.at, "%s", msg)
				ok = false
			}
		case "trial":
			w.Trial = r.duration(e.value, minTrial, maxTrial)
		case "targets":
			targetsAt = e.value.at
			w.Targets = r.names(e.value)
		case "baseline":
			w.Baseline = r.text(e.value, 100)
		case "vary":
			w.Vary = r.vary(e.value)
		case "work":
			w.Work = r.work(e.value)
		case "params":
			if e.value.kind != mapping && e.value.kind != null {
				r.p.add(e.value.at, "params: expected a mapping, found %s", e.value.kind)
				ok = false
			}
			for _, pe := range e.value.keys {
				param(pe)
			}
		default:
			param(e)
		}
	}
	return params, targetsAt, ok
}

// params resolves what was given. The kind reports one mistake at a time, so the wrong one is taken out and the rest is
// asked again.
func (r *reader) params(k *workload.Kind, list []given, at pos) (workload.Params, bool) {
	texts := map[string]string{}
	for _, g := range list {
		texts[g.name] = g.text
	}
	if k == nil {
		return workload.Params(texts), true
	}
	ok := true
	for range len(list) + 1 {
		p, err := k.Resolve(texts)
		if err == nil {
			if ok {
				if err := together(k, p); err != nil {
					r.p.add(at, "%s: %v", k.Name, err)
					return nil, false
				}
			}
			return p, ok
		}
		ok = false
		pe, is := errors.AsType[*workload.ParamError](err)
		where := at
		if is {
			for _, g := range list {
				if g.name == pe.Param {
					where = g.value
					if pe.Unknown {
						where = g.at
					}
				}
			}
		}
		r.p.add(where, "%s", oneLine(err.Error()))
		if _, there := texts[paramOf(pe)]; !there {
			return nil, false
		}
		delete(texts, pe.Param)
	}
	return nil, false
}

func paramOf(e *workload.ParamError) string {
	if e == nil {
		return ""
	}
	return e.Param
}

// together asks the kind whether the parameters fit each other: a record larger than its file, say. A kind that cannot
// run on the controller's system is not asked; the worker will. The error does not begin with the kind's name, which
// most kinds say because a worker says nothing else.
func together(k *workload.Kind, p workload.Params) error {
	if k.New == nil || len(k.Needs.OS) > 0 && !contains(k.Needs.OS, runtime.GOOS) {
		return nil
	}
	if _, err := k.New(p); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return errors.New(strings.TrimPrefix(err.Error(), k.Name+": "))
	}
	return nil
}

// names reads a list of names; a single name may stand alone.
func (r *reader) names(n *node) []string {
	if n.kind == scalar {
		return []string{n.text}
	}
	if n.kind != list || len(n.items) == 0 {
		r.p.add(n.at, "expected a list of environments, such as [host, vm], found %s", n.kind)
		return nil
	}
	var out []string
	for _, item := range n.items {
		if item.kind == mapping && len(item.keys) == 1 && item.keys[0].value.kind == scalar {
			// Within brackets, the parser takes vm:9p for a mapping, which YAML does not.
			out = append(out, item.keys[0].key+":"+item.keys[0].value.text)
			continue
		}
		if s, ok := r.value(item, "the name of an environment"); ok {
			out = append(out, s)
		}
	}
	return out
}

// vary reads the parameters that differ from target to target.
func (r *reader) vary(n *node) map[string]workload.Params {
	if n.kind != mapping {
		r.p.add(n.at, "vary: expected a mapping of targets to parameters, found %s", n.kind)
		return nil
	}
	out := map[string]workload.Params{}
	for _, e := range n.keys {
		if e.value.kind != mapping || len(e.value.keys) == 0 {
			r.p.add(e.value.at, "vary: %s: expected parameters such as { command: ./new }, found %s", quote(e.key),
				e.value.kind)
			continue
		}
		out[e.key] = workload.Params{}
		for _, p := range e.value.keys {
			if v, ok := r.value(p.value, "a value for "+p.key); ok {
				out[e.key][p.key] = v
			}
		}
	}
	return out
}

// resolveVary checks what the work of some targets has otherwise, and makes it canonical. Only commands vary: what
// other kinds do with their parameters (files that are sent, services, figures) is one for all targets.
func (w *Workload) resolveVary(k *workload.Kind) error {
	if k == nil || len(w.Vary) == 0 {
		return nil
	}
	if !k.Is.Command {
		return fmt.Errorf("the parameters of %s are the same in every target; only those of command may vary", k.Name)
	}
	out := map[string]workload.Params{}
	for target, vary := range w.Vary {
		for _, name := range slices.Sorted(maps.Keys(vary)) {
			if !contains(varying, name) {
				return fmt.Errorf("%s: %s is the same in every target; these may vary: %s", target, name,
					strings.Join(varying, ", "))
			}
		}
		all, err := k.Resolve(w.ParamsOn(target))
		if err == nil {
			err = together(k, all)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
		out[target] = workload.Params{}
		for name := range vary {
			out[target][name] = all[name]
		}
	}
	w.Vary = out
	return nil
}

// varying are the parameters of a command that may differ from target to target. The figures that are read, and what
// counts as success, are the same for all.
var varying = []string{"command", "setup", "prepare", "conclude", "cleanup", "shell", "dir", "input", "env", "tree"}

// work reads the frozen work that calibration wrote.
func (r *reader) work(n *node) map[string]int64 {
	if n.kind != mapping {
		r.p.add(n.at, "work: expected a mapping of environments to units of work, found %s", n.kind)
		return nil
	}
	var out map[string]int64
	for _, e := range n.keys {
		s, ok := r.value(e.value, "a whole number")
		v, err := strconv.ParseInt(s, 10, 64)
		if ok && (err != nil || v < 1) {
			r.p.add(e.value.at, "work: expected a whole number of at least 1, found %q", s)
			continue
		}
		if out == nil {
			out = map[string]int64{}
		}
		out[e.key] = v
	}
	return out
}

func checkLabel(s string) string {
	switch {
	case s == "" || strings.TrimSpace(s) != s:
		return "a label is not empty and has no spaces around it"
	case utf8.RuneCountInString(s) > maxLabel:
		return fmt.Sprintf("this label has %d characters; at most %d fit a report", utf8.RuneCountInString(s), maxLabel)
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "a label has printable characters only"
	}
	return ""
}

// autoLabel is the kind and every parameter that is not at its default, in the order of the kind's table.
func autoLabel(k *workload.Kind, p workload.Params) string {
	defaults := defaultParams(k)
	parts := []string{k.Name}
	for _, d := range k.Params {
		if v := p[d.Name]; v != defaults[d.Name] {
			parts = append(parts, d.Name+"="+shortText(v))
		}
	}
	label := []rune(strings.Join(parts, " "))
	if len(label) > maxLabel-5 {
		label = append(label[:maxLabel-6], '…')
	}
	return strings.TrimSpace(string(label))
}

// defaultParams are the kind's defaults in canonical text, also of a kind with required parameters.
func defaultParams(k *workload.Kind) map[string]string {
	out := map[string]string{}
	for i := range k.Params {
		d := &k.Params[i]
		out[d.Name] = d.Default
		if v, err := d.Canonical(d.Default); err == nil && d.Default != "" {
			out[d.Name] = v
		}
	}
	return out
}

// shortText makes a parameter's text fit a label: quoted when it has spaces, cut when it is long.
func shortText(v string) string {
	v = unit.Cut(v, 40)
	if v == "" || strings.ContainsFunc(v, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) ||
			r == '"'
	}) {
		if !strings.ContainsFunc(v, func(r rune) bool { return r == '\'' || !unicode.IsPrint(r) }) {
			return "'" + v + "'"
		}
		return strconv.Quote(v)
	}
	return v
}

// parseWork reads KIND[:key=value,...], the form of -w. A value may hold a comma as `\,` and a backslash as `\\`, or be
// quoted: key="a,b". The value of command= is everything that follows it, as it stands. label= and trial= are the
// workload's own. With t nil, nothing is checked against the kinds.
func parseWork(text string, t *Tables) ([]Workload, error) {
	name, rest, has := strings.Cut(text, ":")
	w := Workload{Kind: name}
	var k *workload.Kind
	if t != nil {
		if k = t.kind(name); k == nil {
			return nil, fmt.Errorf("there is no workload %s%s", quote(name),
				suggest.MeantOrAll(name, t.kindNames(), "there are:"))
		}
	}
	params := map[string]string{}
	if has {
		pairs, err := splitPairs(rest)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, kv := range pairs {
			if _, twice := params[kv[0]]; twice {
				return nil, fmt.Errorf("%s: %s is given twice", name, kv[0])
			}
			params[kv[0]] = kv[1]
		}
	}
	if label, ok := params["label"]; ok {
		if msg := checkLabel(label); msg != "" {
			return nil, fmt.Errorf("%s: %s", name, msg)
		}
		w.Label = label
		delete(params, "label")
	}
	if s, ok := params["trial"]; ok {
		v, err := time.ParseDuration(s)
		if err != nil || v < minTrial || v > maxTrial {
			return nil, fmt.Errorf("%s: trial: expected a duration from %v to %v, found %q", name, minTrial, maxTrial,
				s)
		}
		w.Trial = v
		delete(params, "trial")
	}
	w.Params = params
	if k == nil {
		return []Workload{w}, nil
	}
	var all []Workload
	var refused error
	combinations, err := combine(k, params, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, c := range combinations {
		p, err := k.Resolve(c)
		if err != nil {
			return nil, err
		}
		if err := together(k, p); err != nil {
			refused = fmt.Errorf("%s: %w", name, err)
			continue
		}
		each := w
		each.Params = p
		all = append(all, each)
	}
	if len(all) == 0 {
		return nil, refused
	}
	tellApart(k, all)
	return all, nil
}

// splitPairs reads key=value,key=value with the escapes of parseWork.
func splitPairs(s string) ([][2]string, error) {
	var out [][2]string
	for s != "" {
		key, rest, ok := strings.Cut(s, "=")
		if !ok || key == "" || strings.ContainsAny(key, `,\"`) {
			return nil, fmt.Errorf("%s is not key=value", quote(s))
		}
		if key == "command" {
			return append(out, [2]string{key, rest}), nil
		}
		value, tail, err := cutValue(rest)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		out = append(out, [2]string{key, value})
		s = tail
	}
	return out, nil
}

// cutValue takes one value off s, up to a comma.
func cutValue(s string) (value, rest string, err error) {
	var b strings.Builder
	quoted := strings.HasPrefix(s, `"`)
	i := 0
	if quoted {
		i = 1
	}
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s) && strings.IndexByte(`\,"`, s[i+1]) >= 0:
			i++
			b.WriteByte(s[i])
		case quoted && c == '"':
			if tail := s[i+1:]; tail != "" && tail[0] != ',' {
				return "", "", fmt.Errorf("expected a comma after the closing quote, found %s", quote(tail))
			}
			return b.String(), strings.TrimPrefix(s[i+1:], ","), nil
		case !quoted && c == ',':
			return b.String(), s[i+1:], nil
		default:
			b.WriteByte(c)
		}
	}
	if quoted {
		return "", "", fmt.Errorf("the quote is not closed")
	}
	return b.String(), "", nil
}
