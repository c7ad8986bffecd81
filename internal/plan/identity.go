package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"time"
)

// Identity is the same for two plans that ask for the same: the SHA-256, in hexadecimal digits, of the resolved plan
// without what a run fills in (the frozen work, how often it opened the environments where that was left to it) and
// without its budget, which a resumed run may get anew, and without the section slurm, which says who carries it out.
func Identity(p *Plan) string {
	c := clone(p)
	c.Budget, c.Slurm = 0, nil
	if c.MostSessions > 1 {
		c.Sessions = 1 // what a run makes of it is its own affair
	}
	for i := range c.Workloads {
		c.Workloads[i].Work = nil
	}
	sum := sha256.Sum256(Marshal(&c))
	return hex.EncodeToString(sum[:])
}

// SeedOf derives a seed from the text of a plan, so that all who read one text draw the same. The section slurm does
// not count. It is from 1 to 2^32-1, as a drawn one is.
func SeedOf(src []byte) uint64 {
	sum := sha256.Sum256(withoutSlurm(src))
	var n uint64
	for _, b := range sum[:8] {
		n = n<<8 | uint64(b)
	}
	return 1 + n%(1<<32-1)
}

// Short returns the plan in short form: one session, one look after so many blocks (0: those of its first look), and
// this budget. Each trial and its frozen work are the plan's, so that figures of it can be held against those of the
// whole plan.
func (p *Plan) Short(blocks int, budget time.Duration) *Plan {
	out := clone(p)
	out.Sessions, out.Budget = 1, budget
	if blocks <= 0 {
		blocks = p.Looks[0]
	}
	out.Looks, out.LookAlpha = []int{blocks}, p.Alpha
	return &out
}

// OtherWork says in what the trials of mine are others than those of p; "" where each is one that p asks for as well.
// How many there are, and how they are judged, does not count. mine may leave targets and workloads out.
func (p *Plan) OtherWork(mine *Plan) string {
	if p.Seed != mine.Seed {
		return fmt.Sprintf("its seed is %d and theirs is %d: the data differ", mine.Seed, p.Seed)
	}
	for i := range mine.Targets {
		t := &mine.Targets[i]
		of, ok := p.Target(t.Name)
		switch {
		case !ok:
			return fmt.Sprintf("their plan has no environment %s", t.Name)
		case of.Text != t.Text || of.Like != t.Like || of.Beside != t.Beside:
			return fmt.Sprintf("%s is %s and theirs is %s", t.Name, t.Text, of.Text)
		}
	}
	for i := range mine.Workloads {
		w := &mine.Workloads[i]
		of, ok := p.Workload(w.Label)
		if !ok {
			return fmt.Sprintf("their plan has no workload %s", w.Label)
		}
		same := of.Kind == w.Kind && maps.Equal(of.Params, w.Params) &&
			cmp.Or(of.Trial, p.Trial) == cmp.Or(w.Trial, mine.Trial)
		for t, v := range w.Vary {
			same = same && maps.Equal(of.Vary[t], v)
		}
		if !same {
			return fmt.Sprintf("its workload %s has other parameters than theirs, or another length of trials", w.Label)
		}
	}
	return ""
}
