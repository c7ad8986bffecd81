package plan

import (
	"fmt"
	"slices"
	"sort"

	"tare/internal/stats"
)

// cells is the number of cells of the headline question: one primary metric for each workload and candidate.
func (p *Plan) cells() int {
	n := 0
	for i := range p.Workloads {
		for j := range p.Targets {
			if name := p.Targets[j].Name; name != p.Base(&p.Workloads[i]) && p.Workloads[i].On(name) {
				n++
			}
		}
	}
	return n
}

// chooseLooks makes the looks attainable: the first must be able to pass the correction for all cells, or the run could
// never say DIFFERENT there. A plan whose last look cannot is refused, with the arithmetic.
func (d *draft) chooseLooks(p *problems) {
	looks := slices.Clone(d.Looks)
	if len(looks) == 0 {
		looks = DefaultLooks(d.Mode)
	}
	at := d.looksAt
	if d.blocks > 0 {
		at = d.blocksAt
		looks = slices.DeleteFunc(looks, func(n int) bool { return n >= d.blocks })
		looks = append(looks, d.blocks)
	}
	sort.Ints(looks)
	m := max(1, d.cells())
	if d.Sessions > 1 && d.Screen > 0 {
		p.add(d.screenAt, "candidates cannot be screened in a plan of %d sessions: each session is one unit of the "+
			"verdict; leave screen out, or ask for one session", d.Sessions)
	}
	if d.Sessions > 1 {
		// The session is the unit of the verdict: each gets the blocks of the first look, and there is one look, at the
		// end. Where it was left to a run how often it opens the environments, its looks say how many blocks there are.
		if d.LookAlpha = d.Alpha; d.MostSessions < 2 {
			looks = looks[:1]
		}
		d.Looks = looks
		if need := stats.MinSessions(d.Sessions, m, d.Alpha); d.Sessions < need {
			p.add(d.sessionsAt, "%d sessions cannot reach a verdict: %d are needed for %s at level %.3g (2^-n <= "+
				"%.3g / (2 x %d)); ask for %d sessions, or for fewer than 10, which Student t judges, or measure "+
				"fewer cells",
				d.Sessions, need, count(m, "cell"), d.Alpha, d.Alpha, m, need)
		}
		return
	}
	for {
		alpha := stats.LookAlpha(looks, d.Alpha)
		need := stats.MinBlocks(m, alpha)
		if last := looks[len(looks)-1]; last < need {
			p.add(at, "%d blocks cannot reach a verdict: %d are needed for %s at level %.3g per look (2^-n <= %.3g "+
				"/ (2 x %d)); allow %d blocks or measure fewer cells",
				last, need, count(m, "cell"), alpha, alpha, m, need)
			return
		}
		if looks[0] >= need {
			d.Looks, d.LookAlpha = looks, alpha
			return
		}
		looks = slices.DeleteFunc(looks, func(n int) bool { return n <= need })
		looks = append([]int{need}, looks...)
	}
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Several sessions in the place of one: a full run opens the environments fullSessions times where that is affordable.
// Student t has too wide intervals below leastSessions, and what it takes to open them again is for few blocks below
// sessionBlocks.
const (
	fullSessions  = 6
	leastSessions = 5
	sessionBlocks = 5
)

// sessionsOf is over how many sessions the blocks of the last look can be spread; 0 for none.
func (p *Plan) sessionsOf() int {
	n := min(fullSessions, p.Looks[len(p.Looks)-1]/sessionBlocks)
	if p.Sessions > 1 || n < leastSessions {
		return 0
	}
	return n
}

// checkMost holds that the sessions a run may choose could decide something, and leave each enough blocks.
func (d *draft) checkMost(p *problems) {
	most, last, m := d.MostSessions, d.Looks[len(d.Looks)-1], max(1, d.cells())
	switch {
	case most < 2:
		d.MostSessions = 0 // once, as without a word of it
	case d.Sessions > 1 && d.Sessions != most:
		p.add(d.mostAt, "sessions already says how often environments are opened (%d); leave most_sessions out",
			d.Sessions)
	case last/most < sessionBlocks:
		p.add(d.mostAt, "%d sessions would share %s: each needs %d; allow %d blocks, or fewer sessions", most,
			count(last, "block"), sessionBlocks, most*sessionBlocks)
	case most < stats.MinSessions(most, m, d.Alpha):
		p.add(d.mostAt, "%d sessions cannot reach a verdict: %d are needed for %s; ask for as many, or for fewer than "+
			"10, which Student t judges", most, stats.MinSessions(most, m, d.Alpha), count(m, "cell"))
	}
}
