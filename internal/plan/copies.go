package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tare/internal/measure/workload"
	"tare/internal/suggest"
)

// Copies says that work of some environments is also done in several copies of each at the same time.
//
// For each environment and each step the plan has another target, named ENVIRONMENT@STEP: so many copies of it, each of
// which does the work of a trial, compared with the environment as a single one.
type Copies struct {
	Steps []int `yaml:"steps" json:"steps"` // numbers of copies, ascending, 2 to MostCopies; 1 is always measured
	// Floor is the share of what a single one does that each copy is to keep, in (0, 1].
	Floor   float64  `yaml:"floor" json:"floor"`
	Targets []string `yaml:"targets" json:"targets"` // the environments, in the plan's order
}

// Bounds and defaults of copies.
const (
	MostCopies   = 256
	maxSteps     = 16
	DefaultMost  = 16
	DefaultFloor = 0.5
)

// Doubled are the numbers of copies from 2, each twice the one before, up to most, which is the last one.
func Doubled(most int) (steps []int) {
	for n := 2; n < most; n *= 2 {
		steps = append(steps, n)
	}
	return append(steps, most)
}

// copiesKeys are the keys of copies.
var copiesKeys = []string{"max", "steps", "floor", "targets"}

const copiesForm = "a number such as 8, or { max: 8, floor: 50% }"

// copies reads the copies: the greatest number of them, or a mapping.
func (r *reader) copies(d *draft, n *node) {
	c := &Copies{}
	d.copiesAt = n.at
	switch n.kind {
	case scalar:
		c.Steps = Doubled(r.whole(n, 2, MostCopies))
	case mapping:
		for _, e := range n.keys {
			switch e.key {
			case "max":
				c.Steps = Doubled(r.whole(e.value, 2, MostCopies))
			case "steps":
				c.Steps = r.steps(e.value)
			case "floor":
				c.Floor = r.share(e.value, 1)
			case "targets":
				c.Targets = r.names(e.value)
			default:
				r.p.add(e.at, "copies: there is no key %q%s", e.key,
					suggest.MeantOrAll(e.key, copiesKeys, "there are:"))
			}
		}
	default:
		r.p.add(n.at, "expected %s, found %s", copiesForm, n.kind)
		return
	}
	d.Copies = c
}

// steps reads numbers of copies. One copy is measured in any case and may stand among them.
func (r *reader) steps(n *node) (steps []int) {
	if n.kind != list || len(n.items) == 0 || len(n.items) > maxSteps {
		r.p.add(n.at, "expected 1 to %d numbers of copies in ascending order, such as [2, 4, 8]", maxSteps)
		return nil
	}
	last := 0
	for _, item := range n.items {
		v := r.whole(item, 1, MostCopies)
		if v <= last {
			r.p.add(item.at, "the numbers of copies must ascend: %d comes after %d", v, last)
		}
		if last = v; v > 1 {
			steps = append(steps, v)
		}
	}
	if len(steps) == 0 {
		r.p.add(n.at, "one copy is measured in any case: name a larger number, such as [2, 4, 8]")
	}
	return steps
}

// flagCopies reads the copies of the command line: the greatest number of them, or all numbers with commas between.
func (d *draft) flagCopies(f *Flags, p *problems) {
	if f.Copies == "" && f.Floor == "" {
		return
	}
	at := pos{file: cmp.Or(f.CopiesFlag, "--copies") + " " + f.Copies}
	if d.Copies == nil {
		d.Copies = &Copies{}
		if f.Copies == "" {
			p.add(pos{file: "--floor"}, "it works only with --copies; add --copies, or leave --floor out")
			return
		}
	}
	if d.copiesAt = at; f.Copies != "" {
		all, one := strings.Split(f.Copies, ","), !strings.Contains(f.Copies, ",")
		var steps []int
		for _, text := range all {
			v, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil || v < 1 || v > MostCopies || one && v < 2 || len(all) > maxSteps ||
				len(steps) > 0 && v <= steps[len(steps)-1] {
				p.add(at, "expected the greatest number of copies, from 2 to %d, or ascending numbers such as 2,3,6",
					MostCopies)
				return
			}
			if v > 1 {
				steps = append(steps, v)
			}
		}
		if one {
			steps = Doubled(steps[0])
		}
		d.Copies.Steps = steps
	}
	if f.Floor == "" {
		return
	}
	var err error
	if d.Copies.Floor, err = parseShare(f.Floor); err != nil || !(d.Copies.Floor > 0) || d.Copies.Floor > 1 {
		p.add(pos{file: "--floor"}, "expected a share above 0 and at most 1, such as 0.5 or 50%%, found %q", f.Floor)
	}
}

// placeCopies fills in what was not written of the copies, and adds a target for each step of each environment.
func (d *draft) placeCopies(t *Tables, p *problems) {
	if d.Copies == nil || p.any() {
		return
	}
	at := d.copiesAt
	c := *d.Copies // the caller's plan may have it as well
	c.Targets = slices.Clone(c.Targets)
	d.Copies = &c
	orDefault(&c.Floor, DefaultFloor)
	if len(c.Steps) == 0 {
		c.Steps = Doubled(DefaultMost)
	}
	if len(d.Beside) > 0 {
		p.add(at, "a plan can have copies or neighbours, not both: their effects could not be told apart")
		return
	}
	c.Targets = slices.DeleteFunc(c.Targets, func(name string) bool {
		_, ok := d.Target(name)
		return !ok && d.gone[name]
	})
	for _, name := range c.Targets {
		switch e, ok := d.Target(name); {
		case !ok:
			p.add(at, "copies: there is no environment %s in the plan%s", quote(name),
				suggest.MeantOrAll(name, d.names(), "there are:"))
		case e.IsMount():
			p.add(at, "copies: %s is a mount; name its environment, %s", name, e.Of)
		}
	}
	all := len(c.Targets) == 0
	c.Targets = slices.DeleteFunc(d.names(), func(name string) bool {
		e, _ := d.Target(name)
		return !e.Opens() || !all && !contains(c.Targets, name)
	})
	d.checkCopied(&c, t, p)
	if p.any() {
		return
	}
	d.multiply(p)
}

// checkCopied holds that the environments can be opened several times, and that the work can be done several times at
// once.
func (d *draft) checkCopied(c *Copies, t *Tables, p *problems) {
	if t == nil {
		return
	}
	for _, name := range c.Targets {
		e, _ := d.Target(name)
		if info, ok := t.Drivers.Lookup(e.Spec.Driver); ok && info.Alone != nil {
			if err := info.Alone(e.Spec); err != nil {
				p.add(d.copiesAt, "copies: %s cannot be opened again while it is open: %v; leave it out with targets",
					name, err)
			}
		}
	}
	for i := range d.Workloads {
		w := &d.Workloads[i]
		if !slices.ContainsFunc(c.Targets, w.On) && !slices.Contains(c.Targets, d.Base(w)) {
			continue
		}
		if k := t.kind(w.Kind); k != nil && notCopied(k) != "" {
			p.add(d.place(d.workAt, i), "%s cannot be done in several copies at once: %s", w.Kind, notCopied(k))
		}
		if w.Params[workload.FromParam] != "" {
			p.add(d.place(d.workAt, i), "%s with from= cannot be done in several copies at once: its load is "+
				"offered to one server", w.Kind)
		}
	}
}

// notCopied says why work of a kind cannot be done in several copies at once; "" if it can.
func notCopied(k *workload.Kind) string {
	switch {
	case k.Controller:
		return "the controller does it itself, one at a time"
	case k.Needs.Peer:
		return "its other end is one process of the run's"
	case k.SameWork:
		return "it replays a log, part by part, and the parts of several copies are not compared"
	}
	return ""
}

// multiply makes the targets of the steps, behind the environment that they are copies of.
func (d *draft) multiply(p *problems) {
	var all []Target
	for _, e := range d.Targets {
		all = append(all, e)
		if !contains(d.Copies.Targets, e.Name) {
			continue
		}
		for _, n := range d.Copies.Steps {
			v := d.like(&e, copiesName(e.Name, n))
			v.Copies = n
			all = append(all, v)
		}
	}
	if len(all) > maxTargets {
		p.add(d.copiesAt, "with their copies there are %d targets, more than %d; name fewer steps or targets", len(all),
			maxTargets)
		return
	}
	d.Targets = all
}

// copiesName is the name of a target of so many copies. No other name has this sign.
func copiesName(target string, copies int) string { return fmt.Sprintf("%s@%d", target, copies) }

func (c *Copies) clone() *Copies {
	if c == nil {
		return nil
	}
	out := *c
	out.Steps, out.Targets = slices.Clone(c.Steps), slices.Clone(c.Targets)
	return &out
}

// copiesWithout leaves targets out of those with copies. The steps of those are added to targets, which grows.
func (p *Plan) copiesWithout(targets map[string]bool) *Copies {
	out := p.Copies.clone()
	if out == nil {
		return nil
	}
	for _, name := range out.Targets {
		for _, n := range out.Steps {
			if targets[name] {
				targets[copiesName(name, n)] = true
			}
		}
	}
	out.Targets = slices.DeleteFunc(out.Targets, func(name string) bool { return targets[name] })
	if len(out.Targets) == 0 {
		return nil
	}
	return out
}
