package timeaccount

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"

	"tare/internal/record"
)

// ms is a time in ns.
const ms = 1_000_000

func state(user, kernel int) map[string]string {
	return map[string]string{"cpu_user_ns": fmt.Sprint(user * ms), "cpu_system_ns": fmt.Sprint(kernel * ms),
		"switches_voluntary": "7", "switches_involuntary": "3", "faults_minor": "100", "faults_major": "0"}
}

// reading is what an agent reads, with the given threads.
func reading(tasks string, steal, stalled, chars int) map[string]string {
	return map[string]string{
		"tasks": tasks, "stat": fmt.Sprintf("cpu  10 0 20 300 4 0 1 %d 0 0\ncpu0 10", steal),
		"pressure/io": fmt.Sprintf("some avg10=0.00 avg60=0.02 avg300=0.49 total=%d\nfull avg10=0.00", stalled),
		"self/io": fmt.Sprintf("rchar: %d\nwchar: 14\nsyscr: 16\nsyscw: 3\nread_bytes: 4096\nwrite_bytes: 0\n"+
			"cancelled_write_bytes: 0\n", chars),
		"sys/kernel/task_delayacct": "1\n", "took": "250000",
	}
}

func with(m map[string]string, pairs ...string) map[string]string {
	m = maps.Clone(m)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

func TestOf(t *testing.T) {
	thread := func(id, ran, ready, ticks int) string {
		return fmt.Sprintf("%d %d %d 5 %d\n", id, ran*ms, ready*ms, ticks)
	}
	before := reading(thread(1, 50, 1, 2)+thread(2, 9, 0, 0), 5, 1000, 100)
	one := reading(thread(1, 250, 11, 6)+thread(2, 9, 0, 0), 7, 3000, 5100)
	for name, c := range map[string]struct {
		in       Input
		lanes    float64
		counts   map[string]int64
		missing  map[string]string // the beginning of the reason
		measured []string
	}{
		"a thread": {
			in: Input{State: state(150, 50), Before: before, After: one}, lanes: 1,
			counts: map[string]int64{record.UserNS: 150 * ms, record.KernelNS: 50 * ms, record.ReadyNS: 10 * ms,
				record.DiskNS: 40 * ms, record.OtherNS: 50 * ms, record.StolenNS: 20 * ms, record.IOStalledNS: 2 * ms,
				record.ReadBytes: 5000, record.WrittenBytes: 0, record.DeviceReadBytes: 0,
				record.SwitchesVoluntary: 7, record.FaultsMajor: 0, record.AccountNS: 250000},
			missing: map[string]string{record.CyclesUser: "the agent did not"},
		},
		"two that share the work, and one that only wakes up": {
			in: Input{Threads: "2", State: state(300, 100), Before: before,
				After: reading(thread(1, 250, 101, 2)+thread(2, 209, 100, 0)+thread(3, 1, 500, 0), 5, 1000, 100)},
			lanes: 2, counts: map[string]int64{record.UserNS: 300 * ms, record.ReadyNS: 200 * ms, record.OtherNS: 0,
				record.StolenNS: 0},
		},
		"more than the threads can have done": {
			in: Input{State: state(900, 0), Before: before, After: one}, lanes: 3,
			counts:  map[string]int64{record.UserNS: 900 * ms, record.OtherNS: 0},
			missing: map[string]string{record.ReadyNS: "threads ended", record.DiskNS: "threads ended"},
		},
		"children": {
			in: Input{State: with(state(1, 1), "children_cpu_user_ns", "200000000", "children_faults_minor", "900"),
				Before: before, After: one}, lanes: 1,
			counts:  map[string]int64{record.UserNS: 201 * ms, record.FaultsMinor: 1000, record.OtherNS: 98 * ms},
			missing: map[string]string{record.ReadyNS: "what child processes waited for"},
		},
		"no delays": {
			in:     Input{State: state(150, 50), Before: with(before, "sys/kernel/task_delayacct", "0\n"), After: one},
			counts: map[string]int64{record.OtherNS: 90 * ms}, lanes: 1,
			missing: map[string]string{record.DiskNS: "delay accounting is off"},
		},
		"an old kernel that has delays": {
			in: Input{State: state(150, 50), Before: with(before, "sys/kernel/task_delayacct", "!open"),
				After: one}, lanes: 1, counts: map[string]int64{record.DiskNS: 40 * ms},
		},
		"an old kernel that may have none": {
			in: Input{State: state(150, 50),
				Before: with(before, "sys/kernel/task_delayacct", "!open", "tasks", thread(1, 50, 0, 0)),
				After:  with(one, "tasks", thread(1, 250, 0, 0))}, lanes: 1,
			missing: map[string]string{record.DiskNS: "this kernel does not say"},
		},
		"no hypervisor": {
			in:    Input{State: state(150, 50), Before: before, After: with(one, "stat", "cpu 1 2 3 4 5 6 7 0 0")},
			lanes: 1, missing: map[string]string{record.StolenNS: "nothing was ever reported"},
		},
		"nothing may be read": {
			in: Input{State: state(150, 50), Before: map[string]string{"tasks": "!too many threads",
				"stat": "!open /proc/stat: permission denied", "pressure/io": "!open /proc/pressure/io: no such file",
				"self/io": "!open /proc/self/io: permission denied", record.CyclesUser: "!no such file or directory",
				record.CyclesKernel: "!permission denied"}, After: map[string]string{"tasks": "1 2 3 4"}}, lanes: 1,
			counts: map[string]int64{record.UserNS: 150 * ms, record.OtherNS: 100 * ms},
			missing: map[string]string{record.ReadyNS: "too many threads", record.StolenNS: "stat: permission",
				record.ReadBytes: "self/io: permission", record.CyclesUser: "there is no counter",
				record.CyclesKernel: "perf_event_open is not allowed", record.IOStalledNS: "pressure/io: no such"},
		},
		"the processor counts": {
			in: Input{State: state(200, 0), Before: before, After: with(one,
				record.CyclesUser, "[600 200000000 200000000]",
				record.CyclesKernel, "[600 100 50]", record.InstructionsUser, "[600 0 0]",
				record.InstructionsKernel, "[1 2]")}, lanes: 1,
			counts: map[string]int64{record.CyclesUser: 600},
			missing: map[string]string{record.CyclesKernel: "the processor has too few",
				record.InstructionsUser: "the processor has too few", record.InstructionsKernel: "the agent did not"},
		},
		"misses take turns": {
			in: Input{State: state(200, 0), Before: with(before, record.CyclesUser, "!device or resource busy"),
				After: with(one,
					record.CacheMissesUser, "[600 200000000 50000000]",
					record.BranchMissesUser, "[600 200000000 1000000]",
					record.TLBMissesUser, "[600 200000000 200000000]", record.TLBMissesKernel, "[600 0 0]")}, lanes: 1,
			counts: map[string]int64{record.CacheMissesUser: 2400, record.TLBMissesUser: 600},
			missing: map[string]string{record.BranchMissesUser: "the processor has too few",
				record.TLBMissesKernel:    "the processor has too few",
				record.CyclesUser:         "the processor has too few",
				record.BranchMissesKernel: "the agent did not"},
		},
		"it counts one of two threads": {
			in: Input{Threads: "2", State: state(400, 0), Before: before, After: with(one, "tasks",
				thread(1, 250, 1, 2)+
					thread(2, 209, 0, 0), record.CyclesUser, "[600 200000000 200000000]")}, lanes: 2,
			missing: map[string]string{record.CyclesUser: "the processor counts one thread"},
		},
		"a counter that wraps": {
			in: Input{State: with(state(150, 50), "faults_minor", "-5"), Before: before,
				After: with(one, "self/io", "rchar: 3\n")}, lanes: 1,
			missing: map[string]string{record.ReadBytes: "its counter went backwards",
				record.FaultsMinor: "its counter", record.WrittenBytes: "self/io has no wchar"},
		},
		"macOS": {
			in: Input{OS: "darwin", State: state(150, 50)}, lanes: 1,
			counts: map[string]int64{record.UserNS: 150 * ms, record.OtherNS: 100 * ms},
			missing: map[string]string{record.ReadyNS: "macOS does not tell what the threads", record.DiskNS: "macOS",
				record.StolenNS: "macOS does not tell", record.DeviceReadBytes: "macOS"},
		},
		"Windows": {
			in:      Input{OS: "windows", State: map[string]string{"cpu_user_ns": "1000000", "cpu_system_ns": "0"}},
			lanes:   1,
			counts:  map[string]int64{record.UserNS: ms, record.OtherNS: 299 * ms},
			missing: map[string]string{record.FaultsMinor: "Windows does not tell"},
		},
		"nothing at all": {
			in: Input{OS: "plan9"}, lanes: 1,
			missing: map[string]string{record.UserNS: "this system does not tell",
				record.OtherNS: "it is what remains"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.ElapsedNS = 300 * ms
			if c.in.OS == "" {
				c.in.OS = "linux"
			}
			a := Of(c.in)
			if math.Abs(a.Lanes-c.lanes) > 0.02 {
				t.Errorf("%g lanes, want %g", a.Lanes, c.lanes)
			}
			for k, want := range c.counts {
				if got, ok := a.Counts[k]; !ok || got < want || got > want+want/50 {
					t.Errorf("%s is %d (%q), want %d", k, got, a.Unmeasured[k], want)
				}
			}
			for k, want := range c.missing {
				if got := a.Unmeasured[k]; !strings.HasPrefix(got, want) {
					t.Errorf("%s is not measured because %q, want %q", k, got, want)
				}
			}
			sane(t, a, c.in.ElapsedNS)
		})
	}
	if Of(Input{State: state(1, 1)}) != nil {
		t.Error("a trial of no length has an account")
	}
}

// sane holds what is true of every account.
func sane(t *testing.T, a *record.Account, elapsed int64) {
	t.Helper()
	if !(a.Lanes >= 1) || math.IsInf(a.Lanes, 0) {
		t.Errorf("%g lanes", a.Lanes)
	}
	for k, v := range a.Counts {
		if v < 0 || a.Unmeasured[k] != "" {
			t.Errorf("%s is %d, and not measured because %q", k, v, a.Unmeasured[k])
		}
	}
	sum, whole := 0.0, true
	for _, k := range record.AccountParts() {
		v, ok := a.Counts[k]
		sum, whole = sum+float64(v), whole && (ok || k == record.ReadyNS || k == record.DiskNS)
		if !ok && a.Unmeasured[k] == "" {
			t.Errorf("%s is not there, without a reason", k)
		}
	}
	if want := a.Lanes * float64(elapsed); whole && math.Abs(sum-want) > 1e-6*want+1 {
		t.Errorf("the parts are %g ns, and the lanes of the trial %g", sum, want)
	}
}

func FuzzOf(f *testing.F) {
	b := reading("1 5 6 7 8\n", 1, 2, 3)
	f.Add(int64(300), "10", b["tasks"], "1 9 9 9 9\n", b["stat"], b["pressure/io"], b["self/io"], "1\n", "[1 2 3]")
	f.Add(int64(1), "-1", "!no", "", "cpu", "some total=-1", "rchar: x", "", "!permission denied")
	f.Fuzz(func(t *testing.T, elapsed int64, cpu, before, after, stat, psi, io, setting, event string) {
		if len(before)+len(after)+len(stat)+len(psi)+len(io) > 64<<10 {
			return
		}
		read := map[string]string{"tasks": before, "stat": stat, "pressure/io": psi, "self/io": io,
			"sys/kernel/task_delayacct": setting, record.CyclesUser: event}
		then := map[string]string{"tasks": after, "stat": stat, "pressure/io": psi, "self/io": io, "took": cpu,
			record.CyclesUser: event}
		in := Input{OS: "linux", ElapsedNS: elapsed, Before: read, After: then,
			State: map[string]string{"cpu_user_ns": cpu, "cpu_system_ns": cpu, "children_cpu_user_ns": cpu}}
		if a := Of(in); a != nil {
			sane(t, a, elapsed)
		}
	})
}
