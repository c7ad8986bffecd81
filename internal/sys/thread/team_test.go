package thread

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
)

func TestTeamRunsEachMemberOnce(t *testing.T) {
	for _, n := range []int{1, 2, 7} {
		team, err := Start(n, false)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			ran := make([]int, n)
			team.Do(func(i int) { ran[i]++ })
			for i, r := range ran {
				if r != 1 {
					t.Errorf("member %d of %d ran %d times", i, n, r)
				}
			}
		}
		team.Close()
		team.Close()
	}
}

// Every member sees all the others inside the work: it can only be so if none was let go before all were ready and all
// run side by side.
func TestTeamRunsSideBySide(t *testing.T) {
	const n = 4
	team, err := Start(n, false)
	if err != nil {
		t.Fatal(err)
	}
	defer team.Close()
	var inside atomic.Int32
	all := make(chan struct{})
	team.Do(func(int) {
		if inside.Add(1) == n {
			close(all)
		}
		<-all
	})
	if inside.Load() != n {
		t.Errorf("%d of %d members ran", inside.Load(), n)
	}
}

func TestTeamOfNone(t *testing.T) {
	if _, err := Start(0, false); err == nil {
		t.Error("a team of 0 was made")
	}
}

func TestPinnedTeam(t *testing.T) {
	usable, err := UsableCPUs()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, len(usable), len(usable) + 1} {
		team, err := Start(n, true)
		if errors.Is(err, ErrUnsupported) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		bound := make([][]int, n)
		team.Do(func(i int) { bound[i], _ = UsableCPUs() })
		for i, b := range bound {
			if want := []int{team.CPUs()[i]}; !slices.Equal(b, want) {
				t.Errorf("member %d of %d may run on %v, want %v", i, n, b, want)
			}
		}
		if n == len(usable) && len(slices.Compact(slices.Sorted(slices.Values(team.CPUs())))) != n {
			t.Errorf("%d members share processors %v of %v", n, team.CPUs(), usable)
		}
		team.Close()
	}
	after, err := UsableCPUs()
	if err != nil || !slices.Equal(after, usable) {
		t.Errorf("usable processors are %v after the teams, %v before (%v): a binding leaked", after, usable, err)
	}
}

func TestTeamPassesOnPanics(t *testing.T) {
	team, err := Start(3, false)
	if err != nil {
		t.Fatal(err)
	}
	defer team.Close()
	finished := make([]bool, 3)
	func() {
		defer func() {
			if p := recover(); p != "from 1" {
				t.Errorf("Do panics with %v, want what member 1 said", p)
			}
		}()
		team.Do(func(i int) {
			if i == 1 {
				panic("from 1")
			}
			finished[i] = true
		})
	}()
	if !finished[0] || !finished[2] {
		t.Errorf("the other members finished: %v", finished)
	}
	team.Do(func(int) {}) // and the team is still there
}
