package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"tare/internal/bundle"
	"tare/internal/judge/rundiff"
	"tare/internal/judge/verdict"
	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/version"
)

// loaded is a bundle that was read once: what it holds, and what that says. Of a packed one, the folder that it was
// read from is gone.
type loaded struct {
	*bundle.Bundle
	name   string // as the user calls it
	trials []record.Trial
	result *verdict.Result // computed from the raw trials
	flames []record.Flame  // of trials that were traced after the run
	packed error           // what is wrong with the archive; what could be read of it is used
	damage error           // what is wrong with the trials and graphs; what could be read of them is used
	kinds  func(name string) (*workload.Kind, bool)
}

// load reads a bundle argument. The error is one of a bundle that cannot be read at all.
func (a *app) load(name string) (*loaded, error) {
	in, err := a.folder(name)
	if err != nil {
		return nil, err
	}
	defer in.done()
	return a.read(in, name)
}

// read is load from a folder that was opened already.
func (a *app) read(in opened, name string) (*loaded, error) {
	b, err := bundle.Open(in.dir)
	if err != nil {
		return nil, err
	}
	l := &loaded{Bundle: b, name: name, packed: in.damage, kinds: a.kind}
	l.trials, l.damage = b.Load()
	flames, err := b.Flames()
	l.flames, l.damage = flames, errors.Join(l.damage, err)
	m := &b.Manifest
	if m.Later() {
		fmt.Fprintf(a.err, "tare: tare %s wrote %s, and this is tare %s: what it does not know is passed over\n",
			printableLine(m.Version), printableLine(name), version.Version)
	}
	l.result = verdict.Evaluate(verdict.Input{
		Plan: b.Plan, Environments: b.Environments, Trials: l.trials, Kinds: a.kind,
		Run: verdict.Run{ID: m.RunID, Version: m.Version, Build: m.Build, Seconds: m.Seconds,
			Finished: m.State == bundle.Finished},
		Damage: damageOf(in.dir, name, l.packed, l.damage),
	})
	return l, nil
}

// damageOf lists the faults of a bundle, for its report. Errors name the folder that was read, which says where on this
// machine it lay, and of a packed bundle means nothing by the time it is read. The texts have the bundle's name
// instead.
func damageOf(folder, name string, errs ...error) []string {
	var out []string
	for _, err := range errs {
		if err == nil {
			continue
		}
		text := strings.TrimSpace(err.Error())
		for _, path := range []string{folder, name} {
			if strings.ContainsRune(path, filepath.Separator) {
				text = strings.ReplaceAll(text, path, filepath.Base(name))
			}
		}
		out = append(out, strings.Join(strings.Split(text, "\n"), "; "))
	}
	return out
}

// complain says on standard error what is wrong with the trials of a bundle that is used all the same, each thing on a
// line of its own. What is wrong with an archive was said when it was unpacked.
func (con *console) complain(l *loaded) {
	if l.damage == nil {
		return
	}
	text := l.damage.Error()
	if l.Dir != l.name {
		text = strings.ReplaceAll(text, l.Dir, l.name)
	}
	for line := range strings.Lines(text) {
		fmt.Fprintf(con.err, "tare: %s\n", printableLine(line))
	}
}

// side is the result for comparing it, and for conditions on it.
func (l *loaded) side() *rundiff.Side {
	return &rundiff.Side{Name: nameOf(l.name), Result: l.result, Plan: l.Plan, Trials: l.trials,
		Created:  l.Manifest.Created,
		Redacted: len(l.Manifest.Redacted) > 0, Kinds: l.kinds}
}
