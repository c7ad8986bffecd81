package calldiff

import (
	"math"
	"slices"
	"strings"

	"tare/internal/stats"
	"tare/internal/sys/trace"
)

// level bounds the chance that an answer shows a difference where there is none, over all that it shows.
const level = 0.05

// leastTested is the share of the whole, on both sides together, from which on a figure may be shown. It does not ask
// which side has it, so it chooses nothing by its difference; what is left out makes it no harder for the others.
const leastTested = alike / 2

// tests are the figures of an answer whose differences may be shown. Those of the parts come first.
type tests struct {
	of     []func(*oneRound) float64 // NaN where the round does not tell
	whole  int                       // how many of them add up to the whole
	rounds int                       // that both sides have
	is     []bool                    // shown
}

// add returns the number of a figure of the work.
func (x *tests) add(figure func(*trace.Trace) float64) int {
	return x.addAny(func(r *oneRound) float64 {
		if r.Trace == nil {
			return math.NaN()
		}
		return figure(r.Trace)
	})
}

func (x *tests) addAny(figure func(*oneRound) float64) int {
	x.of = append(x.of, figure)
	return len(x.of) - 1
}

// shown decides of all figures together. The difference of a round is divided by the sum of both sides, so that a round
// that something disturbed counts as one of several.
func (x *tests) shown(base, target *side) []bool {
	var rounds []int
	for round := range base.either {
		if target.either[round] != nil {
			rounds = append(rounds, round)
		}
	}
	slices.Sort(rounds)
	x.rounds = len(rounds)
	out := make([]bool, len(x.of))
	diff, size := make([][]float64, len(x.of)), make([]float64, len(x.of))
	all := 0.0
	for j, of := range x.of {
		diff[j] = make([]float64, len(rounds))
		for i, round := range rounds {
			b, t := base.either[round], target.either[round]
			was, is := of(b)/b.work, of(t)/t.work
			if was+is > 0 {
				size[j] += was + is
				diff[j][i] = (is - was) / (is + was)
			}
		}
		if j < x.whole {
			all += size[j]
		}
	}
	for j := range diff {
		if !(size[j] >= leastTested*all) {
			clear(diff[j])
		}
	}
	for j, p := range stats.Flips(diff) {
		out[j] = p <= level
	}
	return out
}

// tooFew tells whether the rounds cannot show anything.
func (x *tests) tooFew() bool { return x.rounds < LeastRounds }

// LeastRounds is the least number of rounds that can show a difference: the least value of p is 2^(1-rounds).
const LeastRounds = 6

// decide marks the figures that are shown to differ.
func (e *Explanation) decide(base, target *side) {
	shown := e.tests.shown(base, target)
	for i := range e.Parts {
		e.Parts[i].Shown = shown[e.Parts[i].test]
	}
	for i := range e.Waits {
		e.Waits[i].Shown = shown[e.Waits[i].test]
	}
	for i := range e.Counts {
		e.Counts[i].Shown = shown[e.Counts[i].test]
	}
	for i := range e.Stacks {
		e.Stacks[i].Shown = shown[e.Stacks[i].test]
	}
	e.tests.is = shown
}

// waitsFor names the thing that a call waits for, by its name and by the place in the kernel where it slept longest.
func waitsFor(call string, traces ...*trace.Trace) string {
	switch call {
	case "poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2":
		return "a descriptor that is not ready, as a connection without an answer"
	case "futex", "futex_wait", "futex_waitv", "semop", "semtimedop", "rt_sigsuspend", "rt_sigtimedwait", "pause":
		return "another thread, or a time to pass"
	case "nanosleep", "clock_nanosleep":
		return "a time to pass"
	case "wait4", "waitid", "clone", "clone3", "vfork":
		return "another process"
	case "recvfrom", "recvmsg", "recvmmsg", "accept", "accept4", "connect", "sendto", "sendmsg":
		return "the other end of a connection"
	case "fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "msync":
		return "a disk"
	case "flock", "fcntl":
		return "a lock on a file"
	}
	var longest *trace.Stack
	for _, t := range traces {
		for i := range t.Stack {
			if s := &t.Stack[i]; s.Call == call && (longest == nil || s.NS > longest.NS) {
				longest = s
			}
		}
	}
	if longest == nil {
		return "what it asked for"
	}
	for _, f := range longest.Frames {
		for _, place := range []struct{ part, what string }{{"pipe_", "a pipe"}, {"fifo_", "a pipe"},
			{"tcp_", "the other end of a connection"}, {"unix_stream", "the other end of a connection"},
			{"sk_wait", "the other end of a connection"}, {"inet_", "the other end of a connection"},
			{"n_tty", "a terminal"}, {"tty_", "a terminal"}, {"p9_", "a server of files"}, {"nfs", "a server of files"},
			{"fuse_", "a server of files"}, {"cifs", "a server of files"}, {"smb2", "a server of files"},
			{"folio_wait", "a disk"}, {"blk_", "a disk"}, {"bio_", "a disk"}, {"jbd2_", "a disk"},
			{"submit_bio", "a disk"},
			{"io_schedule", "a disk"}, {"rwsem_", "a lock of the kernel"}, {"mutex_", "a lock of the kernel"}} {
			if strings.Contains(f, place.part) {
				return place.what
			}
		}
	}
	return "what it asked for"
}
