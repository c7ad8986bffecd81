package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tare/internal/lab/env"
	"tare/internal/suggest"
)

// reservedEnv are the keys of an environment's mapping that are not settings of its driver.
var reservedEnv = []string{"driver", "arg", "from", "spec", "against"}

// written is an environment as it stands in the file, before it inherits.
type written struct {
	name     string
	of       string // the environment that a mount is in
	at       pos
	spec     env.Spec
	from     string
	fromAt   pos
	against  string
	againAt  pos
	argGiven bool
	removed  []string       // settings given as nothing: back to the driver's default
	places   map[string]pos // of settings: the key
	values   map[string]pos // of settings: the value
	state    int            // of the walk to the root: 0 unseen, 1 being resolved, 2 done
	bad      bool
}

func (r *reader) environments(d *draft, n *node) {
	var all []*written
	switch n.kind {
	case mapping:
		for _, e := range n.keys {
			of, short, mount := env.CutMount(e.key)
			if !mount {
				of, short = "", e.key
			} else if err := env.CheckName(of); err != nil {
				r.p.add(e.at, "%v", err)
				continue
			}
			if err := env.CheckName(short); err != nil {
				r.p.add(e.at, "%v", err)
				continue
			}
			w := r.environment(e, short)
			w.of = of
			all = append(all, w)
		}
	case list:
		for _, item := range n.items {
			if text, ok := r.value(item, "an environment such as vm=qemu?cpus=2"); ok {
				w := &written{at: item.at}
				var err error
				if w.spec, err = env.ParseSpec(text); err != nil {
					r.p.add(item.at, "%v", err)
					continue
				}
				w.name = w.spec.Name
				all = append(all, w)
			}
		}
	default:
		r.p.add(n.at, "expected a mapping of names to environments, such as `host: local`, found %s", n.kind)
		return
	}
	if len(all) > maxEnvironments {
		r.p.add(n.at, "%d environments are more than %d", len(all), maxEnvironments)
		return
	}
	r.inherit(d, all)
}

// environment reads an environment, or a mount; short is the name without the environment that a mount is in.
func (r *reader) environment(e *entry, short string) *written {
	w := &written{name: e.key, at: e.at, places: map[string]pos{}, values: map[string]pos{}}
	w.spec.Name = short
	switch e.value.kind {
	case null:
		w.spec, w.bad = r.specText(short, short, e.at)
		w.spec.Name = short
	case scalar:
		w.at = e.value.at
		w.spec, w.bad = r.specText(short, short+"="+e.value.text, e.value.at)
	case mapping:
		r.environmentMap(w, e.value)
	default:
		r.p.add(e.value.at, "environment %s: expected DRIVER[:ARG][?key=value&...] or a mapping, found %s", e.key,
			e.value.kind)
		w.bad = true
	}
	return w
}

func (r *reader) specText(name, text string, at pos) (env.Spec, bool) {
	s, err := env.ParseSpec(text)
	if err != nil {
		r.p.add(at, "%v", err)
		return env.Spec{Name: name}, true
	}
	return s, false
}

func (r *reader) environmentMap(w *written, n *node) {
	driverGiven := false
	for _, e := range n.keys {
		if e.value.kind == null && !contains(reservedEnv, e.key) {
			w.removed = append(w.removed, e.key)
			w.places[e.key], w.values[e.key] = e.at, e.at
			continue
		}
		text, ok := r.value(e.value, "text")
		if !ok {
			w.bad = true
			continue
		}
		key := e.key
		if _, _, mount := env.CutMount(w.name); mount && key == "kind" {
			key = "driver" // a mount's kind stands where an environment's driver does
		}
		switch key {
		case "driver":
			driverGiven = true
			w.spec.Driver, w.at = env.DriverNamed(text), e.value.at
		case "arg":
			w.spec.Arg, w.argGiven = text, true
		case "from":
			w.from, w.fromAt = text, e.value.at
		case "against":
			w.against, w.againAt = text, e.value.at
		case "spec":
			var s env.Spec
			s, w.bad = r.specText(w.spec.Name, w.spec.Name+"="+text, e.value.at)
			w.spec.Driver, w.spec.Arg, w.at = s.Driver, s.Arg, e.value.at
			for k, v := range s.Settings {
				w.set(k, v, e.value.at, e.value.at)
			}
		default:
			w.set(e.key, text, e.at, e.value.at)
		}
	}
	switch {
	case w.bad:
	case w.spec.Driver == "" && w.from == "":
		r.p.add(n.at, "environment %s has no driver: write driver: NAME, or from: ENVIRONMENT to derive it", w.name)
		w.bad = true
	case driverGiven && w.from != "":
		r.p.add(w.at, "environment %s has both driver and from; a derived environment has its parent's driver", w.name)
		w.bad = true
	}
}

func (w *written) set(key, value string, keyAt, valueAt pos) {
	if w.spec.Settings == nil {
		w.spec.Settings = map[string]string{}
	}
	w.spec.Settings[key] = value
	w.places[key], w.values[key] = keyAt, valueAt
}

// inherit gives derived environments their parents' settings, checks each against its driver and adds it to the draft.
func (r *reader) inherit(d *draft, all []*written) {
	byName := map[string]*written{}
	var names []string
	for _, w := range all {
		if byName[w.name] != nil {
			r.p.add(w.at, "environment %s is given twice", w.name)
			w.bad = true
			continue
		}
		byName[w.name] = w
		names = append(names, w.name)
	}
	for _, w := range all {
		r.derive(w, byName, names)
		if w.bad {
			continue
		}
		if w.of != "" && (byName[w.of] == nil || byName[w.of].of != "") {
			r.p.add(w.at, "mount %s: there is no such environment in the plan%s", w.name,
				suggest.MeantOrAll(w.of, names, "there are:"))
			continue
		}
		switch {
		case r.t == nil:
		case w.of == "":
			r.checkSpec(w, names)
		case !byName[w.of].bad:
			r.derive(byName[w.of], byName, names)
			r.checkMount(w, byName[w.of].spec)
		}
		d.envAt[w.name] = w.at
		d.Targets = append(d.Targets, Target{Name: w.name, Of: w.of, Spec: w.spec, Text: w.spec.String(), From: w.from,
			Against: w.against})
		if w.against != "" {
			d.againAt[w.name] = w.againAt
		}
	}
}

func (r *reader) derive(w *written, byName map[string]*written, names []string) {
	if w.state == 2 || w.bad {
		return
	}
	if w.state == 1 {
		r.p.add(w.fromAt, "environment %s derives from itself through %s", w.name, w.from)
		w.bad = true
		return
	}
	w.state = 1
	defer func() { w.state = 2 }()
	// The resolved form carries spec and from: it has inherited already, also when its parent is not in the plan.
	if w.from == "" || w.spec.Driver != "" {
		for _, k := range w.removed {
			r.p.add(w.places[k], "environment %s: setting %s has no value", w.name, k)
			w.bad = true
		}
		return
	}
	parent := byName[w.from]
	if parent == nil {
		r.p.add(w.fromAt, "environment %s derives from %q: there is no such environment in the plan%s", w.name, w.from,
			suggest.MeantOrAll(w.from, names, "there are:"))
		w.bad = true
		return
	}
	r.derive(parent, byName, names)
	if parent.bad {
		w.bad = true
		return
	}
	own := w.spec.Settings
	w.spec.Driver = parent.spec.Driver
	w.spec.Settings = maps.Clone(parent.spec.Settings)
	if w.spec.Settings == nil {
		w.spec.Settings = map[string]string{}
	}
	maps.Copy(w.spec.Settings, own)
	for _, k := range w.removed {
		delete(w.spec.Settings, k)
	}
	if len(w.spec.Settings) == 0 {
		w.spec.Settings = nil
	}
	if !w.argGiven {
		w.spec.Arg = parent.spec.Arg
	}
}

// checkSpec asks the driver's table once for driver and argument and once for each setting, so that each mistake is
// shown at its own place. A driver that is none but one of the other environments was meant as a parent.
func (r *reader) checkSpec(w *written, others []string) {
	bare := w.spec
	bare.Settings = nil
	if _, ok := r.t.Drivers.Lookup(bare.Driver); !ok && bare.Driver != w.name && slices.Contains(others, bare.Driver) {
		r.p.add(w.at, "environment %s: there is no driver %q, but an environment has that name; to derive from "+
			"it, write %s: { from: %s, ... } in a plan file", w.name, bare.Driver, w.name, bare.Driver)
		return
	}
	if err := r.t.Drivers.Check(bare); err != nil {
		r.p.add(w.at, "%v", err)
		return
	}
	info, _ := r.t.Drivers.Lookup(bare.Driver)
	known := map[string]bool{}
	for _, s := range info.Settings {
		known[s.Name] = true
	}
	for k, v := range w.spec.Settings {
		bare.Settings = map[string]string{k: v}
		if err := r.t.Drivers.Check(bare); err != nil {
			places := w.values
			if !known[k] {
				places = w.places
			}
			r.p.add(place(places, k, w.at), "%v", err)
		}
	}
	for _, k := range w.removed {
		if !known[k] {
			bare.Settings = map[string]string{k: ""}
			r.p.add(w.places[k], "%v", r.t.Drivers.Check(bare))
		}
	}
}

// checkMount asks the driver of the environment once for the kind and argument, once for each setting, and if all are
// good whether they go together.
func (r *reader) checkMount(w *written, in env.Spec) {
	bare := w.spec
	bare.Settings = nil
	if err := r.t.Drivers.CheckMount(w.name, in.Driver, bare); err != nil {
		r.p.add(w.at, "%v", err)
		return
	}
	good := true
	for k, v := range w.spec.Settings {
		bare.Settings = map[string]string{k: v}
		if err := r.t.Drivers.CheckMount(w.name, in.Driver, bare); err != nil {
			r.p.add(place(w.values, k, w.at), "%v", err)
			good = false
		}
	}
	if !good {
		return
	}
	if err := r.t.Drivers.CheckMountIn(w.name, in, w.spec); err != nil {
		r.p.add(w.at, "%v", err)
	}
}

func place(places map[string]pos, key string, otherwise pos) pos {
	if at, ok := places[key]; ok {
		return at
	}
	return otherwise
}

// quote shows a name in a message without letting it spread over lines.
func quote(s string) string {
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "..."
	}
	return fmt.Sprintf("%q", s)
}
