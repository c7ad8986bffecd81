package semantics

import (
	"fmt"
	"slices"
	"time"

	"tare/internal/measure/fileops"
)

func parallelTrials() []trial {
	return []trial{{
		lines: []line{{"parallel-stat", "status calls with 4 threads against one"},
			{"parallel-create", "making files with 4 threads against one"}},
		limit: 7 * time.Second, // a call under way at the end of a turn may take as long as a turn
		run:   tryParallel,
	}}
}

const (
	team       = 4
	raceTime   = 150 * time.Millisecond
	raceRounds = 3
	// fewTurns are too few for a rating: by one and by four threads together, over all rounds.
	fewTurns = 200
)

func tryParallel(t *try) {
	t.in.do(fileops.Request{Op: fileops.Mkdir, Name: []byte("races")})
	for _, r := range []struct{ kind, line string }{{fileops.RaceStat, "parallel-stat"},
		{fileops.RaceCreate, "parallel-create"}} {
		// In turn, so that what the machine does besides hits both alike.
		var one, many []float64
		cpus, turns := 0, 0
		for range raceRounds {
			for _, threads := range []int{1, team} {
				got := t.in.do(fileops.Request{Op: fileops.Race, Name: []byte("races"), Kind: r.kind, Threads: threads,
					TimeoutNS: int64(raceTime)})
				if got.WaitedNS <= 0 {
					return
				}
				rate := float64(got.Count) / time.Duration(got.WaitedNS).Seconds()
				if threads == 1 {
					one = append(one, rate)
				} else {
					many = append(many, rate)
				}
				cpus, turns = got.CPUs, turns+got.Count
			}
		}
		slices.Sort(one)
		slices.Sort(many)
		single, together := one[len(one)/2], many[len(many)/2]
		rating := parallelRating(together / single)
		if turns < fewTurns {
			rating = neutral // a folder that slow is weighed by a handful of calls
		}
		t.say(r.line, fmt.Sprintf("%.2gx", together/single), rating,
			"%.0f/s by one thread and %.0f/s by %d, on %d CPUs; the medians of %d turns of %v each, taken in turn",
			single, together, team, cpus, raceRounds, raceTime)
	}
}

// parallelRating rates how much more several threads do than one. Where they do clearly less, they wait for each other;
// a little less is what a busy machine makes of as much.
func parallelRating(ratio float64) string {
	switch {
	case ratio < 0.6:
		return bad
	case ratio > 1.5:
		return good
	}
	return neutral
}
