package plan

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"tare/internal/lab/env"
	"tare/internal/measure/workload"
)

// Arguments returns the arguments of `tare run` that make the same plan anywhere: the same targets, work, seed and
// looks. The frozen amount of work is left out, so that another machine finds its own. ok is false for a plan that a
// command line cannot say, such as one with looks or margins of its own, and for a kind that t does not have.
func Arguments(p *Plan, t Tables) (args []string, ok bool) {
	if len(p.Targets) == 0 || len(p.Looks) == 0 || p.Energy != nil && len(p.Energy.Meter) > 0 {
		return nil, false // pages show the line, and a meter's command may hold a secret
	}
	f, trials := Flags{Seed: p.Seed}, p.Trial != DefaultTrial(p.Mode)
	if p.Mode == Full {
		f.Mode = Full
	}
	if _, host := p.Target("host"); host && p.Baseline != "host" || !host && p.Baseline != p.Targets[0].Name {
		f.Baseline = p.Baseline
	}
	for i := range p.Targets {
		e := &p.Targets[i]
		if e.Like != "" {
			continue // it follows from the neighbour or from the copies
		}
		if e.IsMount() {
			f.Mounts = append(f.Mounts, e.Of+":"+specArgument(e.Spec))
		} else {
			f.Environments = append(f.Environments, specArgument(e.Spec))
		}
	}
	for i := range p.Beside {
		n := &p.Beside[i]
		k := t.kind(n.Kind)
		if k == nil {
			return nil, false
		}
		places := slices.Collect(maps.Values(n.In))
		f.Beside = append(f.Beside, n.Name+"="+places[0]+":"+workArgument(k, n.Work(), p, false))
	}
	if c := p.Copies; c != nil {
		f.Copies, f.Floor = joined(c.Steps), strconv.FormatFloat(c.Floor, 'g', -1, 64)
	}
	f.Energy = p.Energy.String()
	for i := range p.Workloads {
		w := &p.Workloads[i]
		k := t.kind(w.Kind)
		if k == nil {
			return nil, false
		}
		f.Workloads = append(f.Workloads, workArgument(k, w, p, trials))
	}
	if !slices.Equal(p.Looks, p.defaultLooks()) {
		f.Blocks = p.Looks[len(p.Looks)-1]
	}
	if p.MostSessions < 2 && (p.Sessions > 1 || p.Mode == Full && p.sessionsOf() > 0) {
		f.Sessions = p.Sessions
	}
	if p.Budget > 0 {
		f.Budget = &p.Budget
	}
	// Whatever the flags have lost, the plan that they make has not: so nothing else needs to know what they can say.
	again, err := FromFlags(nil, f, Tables{Drivers: t.Drivers, Kinds: t.Kinds})
	if err != nil || !sameCourse(p, again) {
		return nil, false
	}
	args = f.arguments()
	if p.Cards {
		args = append(args, "--cards")
	}
	return args, !slices.ContainsFunc(args, func(a string) bool {
		return strings.ContainsFunc(a, func(r rune) bool { return !unicode.IsPrint(r) })
	})
}

// arguments writes flags as they are typed.
func (f *Flags) arguments() []string {
	var args []string
	add := func(flag string, values ...string) {
		for _, v := range values {
			args = append(args, flag, v)
		}
	}
	add("-e", f.Environments...)
	add("-m", f.Mounts...)
	if f.Baseline != "" {
		add("-b", f.Baseline)
	}
	add("--beside", f.Beside...)
	if f.Copies != "" {
		add("--copies", f.Copies)
		add("--floor", f.Floor)
	}
	if f.Energy != "" {
		add("--energy", f.Energy)
	}
	add("-w", f.Workloads...)
	if f.Mode == Full {
		args = append(args, "--full")
	}
	if f.Blocks > 0 {
		add("--blocks", strconv.Itoa(f.Blocks))
	}
	if f.Sessions > 0 {
		add("--sessions", strconv.Itoa(f.Sessions))
	}
	if f.Budget != nil {
		add("--budget", f.Budget.String())
	}
	add("--seed", strconv.FormatUint(f.Seed, 10))
	return args
}

// joined writes numbers of copies: the greatest, where the others follow from it.
func joined(steps []int) string {
	if most := steps[len(steps)-1]; slices.Equal(steps, Doubled(most)) {
		return strconv.Itoa(most)
	}
	var texts []string
	if len(steps) == 1 {
		texts = append(texts, "1") // so that it is a list
	}
	for _, n := range steps {
		texts = append(texts, strconv.Itoa(n))
	}
	return strings.Join(texts, ",")
}

// specArgument writes an environment or a mount as for -e or behind the colon of -m, without the name where that is
// the driver's.
func specArgument(s env.Spec) string {
	text := s.String()
	if s.Name == env.Host && s.Driver == env.DriverNamed(env.Host) {
		text = env.Host + strings.TrimPrefix(text, s.Driver)
	}
	if short, err := env.ParseSpec(text); err == nil && short.Name == s.Name {
		return text
	}
	return s.Name + "=" + text
}

// AsArgument writes a workload of the plan as for -w.
func (p *Plan) AsArgument(k *workload.Kind, w *Workload) string { return workArgument(k, w, p, false) }

// workArgument writes a workload as for -w, with what is not at its default. A command comes last, because everything
// behind it is part of it.
func workArgument(k *workload.Kind, w *Workload, p *Plan, trials bool) string {
	defaults := defaultParams(k)
	escape := strings.NewReplacer(`\`, `\\`, `,`, `\,`, `"`, `\"`)
	var pairs []string
	command := ""
	for _, d := range k.Params {
		switch v, ok := w.Params[d.Name]; {
		case !ok || v == defaults[d.Name]:
		case d.Name == "command":
			command = "command=" + v
		default:
			pairs = append(pairs, d.Name+"="+escape.Replace(v))
		}
	}
	if w.Label != autoLabel(k, w.Params) {
		pairs = append(pairs, "label="+escape.Replace(w.Label))
	}
	if trials || w.Trial > 0 {
		pairs = append(pairs, "trial="+trialOf(p, w).String())
	}
	if command != "" {
		pairs = append(pairs, command)
	}
	if len(pairs) == 0 {
		return k.Name
	}
	return k.Name + ":" + strings.Join(pairs, ",")
}

// sameCourse tells whether two plans make the same run, but for the frozen work. What only says in words what is asked
// does not count, nor where a plan's text came from.
func sameCourse(a, b *Plan) bool {
	plain := func(p *Plan) Plan {
		c := clone(p)
		c.Name, c.Question, c.Missing, c.Cards, c.Trial = "", "", "", false, 0
		c.Slurm = nil           // for a fleet's jobs; no run of one machine is another one by it
		if c.MostSessions > 1 { // what a run has made of it is not for the next
			c.Sessions, c.LookAlpha = 1, 0
		}
		for i := range c.Targets {
			c.Targets[i].From, c.Targets[i].Spec = "", env.Spec{}
		}
		for i := range c.Workloads {
			w := &c.Workloads[i]
			w.Trial, w.Work, w.Targets = trialOf(p, w), nil, nil
			for j := range p.Targets {
				if name := p.Targets[j].Name; p.Workloads[i].On(name) {
					w.Targets = append(w.Targets, name)
				}
			}
		}
		return c
	}
	x, y := plain(a), plain(b)
	return reflect.DeepEqual(&x, &y)
}

// trialOf is the shortest length of a workload's trials: its own, or the plan's.
func trialOf(p *Plan, w *Workload) time.Duration { return cmp.Or(w.Trial, p.Trial) }
