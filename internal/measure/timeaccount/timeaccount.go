// Package timeaccount makes the account of a trial's time from the counters that its worker read before and after.
//
// It runs in the controller, so that the agent sends the kernel's own words and stays small. They come from an
// environment that may be anything, so each is doubted: what is missing, cannot be read, or went backwards is not
// measured, with the reason, and never 0.
package timeaccount

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tare/internal/record"
)

// Input has the data of a trial's result.
type Input struct {
	OS            string            // GOOS of the agent
	ElapsedNS     int64             // length of the timed part by the environment's clock
	Threads       string            // how many threads the work was asked for, as its parameter; "" for one
	State         map[string]string // the trial's state, which has what getrusage tells
	Before, After map[string]string // as in wire.Result
}

const (
	tick  = 10_000_000 // ns, of USER_HZ on every architecture
	psiUS = 1000       // ns
	// The kernel adds to a running thread's time at a tick, so it may lag behind by one for each look.
	lag = 2 * tick
	// ended is the share of the CPU time from which on threads or children that have ended matter.
	ended = 0.05
	// turn is the least share of the time in which a counter of the processor must have counted.
	turn = 0.9

	// leastTurn is the least share of the time from which a counter can be estimated.
	leastTurn = 0.1
	// longest bounds every time, in ns: a sum of all of them does not overflow.
	longest = math.MaxInt64 / 1024
)

// Of makes the account; nil for a trial of no length.
func Of(in Input) *record.Account {
	if in.ElapsedNS <= 0 || in.ElapsedNS > longest {
		return nil
	}
	m := &maker{Input: in, Account: record.Account{Counts: map[string]int64{}, Unmeasured: map[string]string{}}}
	m.usage()
	m.tasks()
	m.system()
	m.files()
	m.disks()
	m.processor()
	m.rest()
	if v, err := strconv.ParseInt(in.After["took"], 10, 64); err == nil && v > 0 && v < longest {
		m.Counts[record.AccountNS] = v
	}
	return &m.Account
}

type maker struct {
	Input
	record.Account
	self, children int64 // CPU time, ns
}

// count keeps a count, if it can be one.
func (m *maker) count(name string, v int64) {
	if v < 0 || v > longest {
		m.missing(name, "its counter went backwards during the trial")
		return
	}
	m.Counts[name] = v
}

func (m *maker) missing(name, reason string) { m.Unmeasured[name] = reason }

// usage takes what getrusage says of the process and its children.
func (m *maker) usage() {
	for state, name := range map[string]string{
		"cpu_user_ns": record.UserNS, "cpu_system_ns": record.KernelNS,
		"switches_voluntary": record.SwitchesVoluntary, "switches_involuntary": record.SwitchesInvoluntary,
		"faults_minor": record.FaultsMinor, "faults_major": record.FaultsMajor,
	} {
		own, ok := m.number(state)
		if !ok {
			m.missing(name, m.says("does not tell it of a process"))
			continue
		}
		child, _ := m.number("children_" + state)
		m.count(name, own+child)
		if strings.HasPrefix(state, "cpu_") {
			m.self, m.children = m.self+own, m.children+child
		}
	}
}

// number reads a count of the state.
func (m *maker) number(name string) (int64, bool) {
	v, err := strconv.ParseInt(m.State[name], 10, 64)
	return v, err == nil && v > -longest && v < longest
}

// says is a reason that names the system.
func (m *maker) says(what string) string {
	names := map[string]string{"darwin": "macOS", "windows": "Windows", "freebsd": "FreeBSD", "linux": "Linux"}
	if n := names[m.OS]; n != "" {
		return n + " " + what
	}
	return "this system " + what
}

// task has the kernel's times of one thread: those of running and of waiting for a processor, in ns, and that of
// waiting for a disk, in ticks.
type task struct {
	ran, ready, disk int64
	hasDisk          bool
}

// mostTasks bounds the threads of a reading.
const mostTasks = 4096

// parseTasks reads lines of a thread's id, its schedstat (time on a processor, time waiting for one, how often), and
// perhaps the ticks that it waited for a disk.
func parseTasks(text string) (map[int64]task, error) {
	all := map[int64]task{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 4 || len(f) > 5 || len(all) >= mostTasks {
			return nil, fmt.Errorf("%.40q is not a thread's times", line)
		}
		var n [5]int64
		for i, s := range f {
			most := int64(longest)
			if i > 2 {
				most = longest / tick
			}
			if n[i] = positive(s, most); n[i] < 0 {
				return nil, fmt.Errorf("%.40q is not a thread's time", s)
			}
		}
		all[n[0]] = task{ran: n[1], ready: n[2], disk: n[4], hasDisk: len(f) == 5}
	}
	return all, nil
}

// threads has the sums over the threads of a process between two readings, without those that hardly did anything.
type threads struct {
	ready   float64 // ns that they waited for a processor
	ticks   int64   // that they waited for a disk
	hasDisk bool    // ticks are known
	waited  bool    // one of them has waited for a disk at some time
}

// helper is the share of the busiest thread's time from which on a thread's waiting counts. The Go runtime has threads
// that wake up all the time, do nothing, and wait for a processor each time. Beside work that sleeps every few ms they
// ran for up to 6 % of its time, and waited for a processor for a quarter.
const helper = 0.1

// difference also gives the time on a processor of all threads, in ns.
func difference(before, after map[int64]task) (ran float64, did threads) {
	var most float64
	spent := make(map[int64]task, len(after))
	did.hasDisk = len(after) > 0
	for id, now := range after {
		then := before[id]
		if now.ran < then.ran || now.ready < then.ready || now.disk < then.disk {
			then = task{} // the id is another thread's by now
		}
		d := task{ran: now.ran - then.ran, ready: now.ready - then.ready, disk: now.disk - then.disk}
		spent[id] = d
		ran, most = ran+float64(d.ran), max(most, float64(d.ran))
		did.hasDisk, did.waited = did.hasDisk && now.hasDisk, did.waited || now.disk > 0
	}
	for _, d := range spent {
		if float64(d.ran) >= helper*most {
			did.ready, did.ticks = did.ready+float64(d.ready), did.ticks+d.disk
		}
	}
	return ran, did
}

// tasks takes what the kernel says of each thread: how many worked side by side, and what they waited for.
func (m *maker) tasks() {
	both := func(reason string) {
		m.missing(record.ReadyNS, reason)
		m.missing(record.DiskNS, reason)
	}
	if m.Before["tasks"] == "" && m.After["tasks"] == "" {
		both(m.says("does not tell what the threads of a process wait for"))
		if m.OS == "linux" {
			both("this kernel has no schedstat")
		}
		return
	}
	if why := m.unread("tasks"); why != "" {
		both(why)
		return
	}
	before, err := parseTasks(m.Before["tasks"])
	if err != nil {
		both(err.Error())
		return
	}
	after, err := parseTasks(m.After["tasks"])
	if err != nil {
		both(err.Error())
		return
	}
	ran, did := difference(before, after)
	switch gone := float64(m.self) - ran - lag; {
	case float64(m.children) > ended*float64(m.ElapsedNS):
		both("what child processes waited for is not kept when they end")
		return
	case gone > ended*float64(m.self):
		both("threads ended during the trial, and what they waited for is not kept")
		return
	}
	m.count(record.ReadyNS, int64(min(did.ready, longest)))
	const setting = "sys/kernel/task_delayacct"
	switch on := m.Before[setting]; {
	case on == "0\n":
		m.missing(record.DiskNS,
			"delay accounting is off: `sysctl kernel.task_delayacct=1` in the environment turns it on")
	case !did.hasDisk:
		m.missing(record.DiskNS, "this kernel has no delay accounting")
	case on != "1\n" && !did.waited: // before Linux 5.14 there was no setting
		m.missing(record.DiskNS, "this kernel does not say whether it accounts for delays")
	default:
		m.count(record.DiskNS, min(did.ticks, longest/tick)*tick)
	}
}

// unread is the reason why a file could not be read; "" if it was.
func (m *maker) unread(name string) string {
	for _, text := range []string{m.Before[name], m.After[name]} {
		if why, failed := strings.CutPrefix(text, "!"); failed {
			return m.cannot(name, why)
		}
	}
	if m.Before[name] == "" || m.After[name] == "" {
		return m.says("does not tell it")
	}
	return ""
}

// cannot is the reason of a file that could not be read, without its path: a copy without names would mask that.
func (m *maker) cannot(name, why string) string {
	why = strings.ToValidUTF8(strings.TrimPrefix(why[:min(len(why), 100)], "open /proc/"), "?")
	if name == "tasks" || strings.HasPrefix(why, name) {
		return why
	}
	return name + ": " + why
}

// system takes what the kernel says of the whole system.
func (m *maker) system() {
	if why := m.unread("stat"); why != "" {
		m.missing(record.StolenNS, why)
	} else if then, now := stolen(m.Before["stat"]), stolen(m.After["stat"]); then < 0 || now < 0 {
		m.missing(record.StolenNS, "the kernel does not count stolen time")
	} else if now == 0 {
		m.missing(record.StolenNS, "nothing was ever reported as stolen: no hypervisor that tells")
	} else {
		m.count(record.StolenNS, (now-then)*tick)
	}
	if why := m.unread("pressure/io"); why != "" {
		m.missing(record.IOStalledNS, why)
	} else if then, now := stalled(m.Before["pressure/io"]), stalled(m.After["pressure/io"]); then < 0 || now < 0 {
		m.missing(record.IOStalledNS, "the kernel's pressure of I/O cannot be read")
	} else {
		m.count(record.IOStalledNS, (now-then)*psiUS)
	}
}

// stolen is the eighth time of the first line of /proc/stat, in ticks; -1 if there is none.
func stolen(text string) int64 {
	line, _, _ := strings.Cut(text, "\n")
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return -1
	}
	return positive(f[8], longest/tick)
}

// stalled is the total of the line "some" of a file of pressure, in µs; -1 if there is none.
func stalled(text string) int64 {
	line, _, _ := strings.Cut(text, "\n")
	_, total, ok := strings.Cut(line, " total=")
	if !ok || !strings.HasPrefix(line, "some ") {
		return -1
	}
	return positive(total, longest/psiUS)
}

func positive(text string, most int64) int64 {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 || v > most {
		return -1
	}
	return v
}

// files takes what went in and out of files.
func (m *maker) files() {
	why := m.unread("self/io")
	for field, name := range map[string]string{"rchar": record.ReadBytes, "wchar": record.WrittenBytes,
		"read_bytes": record.DeviceReadBytes, "write_bytes": record.DeviceWrittenBytes} {
		if why != "" {
			m.missing(name, why)
			continue
		}
		then, now := labelled(m.Before["self/io"], field), labelled(m.After["self/io"], field)
		if then < 0 || now < 0 {
			m.missing(name, "self/io has no "+field)
			continue
		}
		m.count(name, now-then)
	}
}

// labelled is a number behind its name and a colon at the beginning of a line; -1 if there is none.
func labelled(text, name string) int64 {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, name+": "); ok {
			return positive(strings.TrimSpace(v), longest)
		}
	}
	return -1
}

// processor takes the processor's own counters.
func (m *maker) processor() {
	misses := record.MissCounts()
	for _, name := range append(record.ProcessorCounts(), misses...) {
		why, failed := strings.CutPrefix(m.Before[name], "!")
		if !failed {
			why, failed = strings.CutPrefix(m.After[name], "!")
		}
		if failed {
			m.missing(name, hardware(m.cannot(name, why)))
			continue
		}
		f := strings.Fields(strings.Trim(m.After[name], "[]"))
		if len(f) != 3 && m.OS == "linux" {
			m.missing(name, "the agent did not read the processor's counters")
			continue
		} else if len(f) != 3 {
			m.missing(name, m.says("does not tell what the processor counts"))
			continue
		}
		v, wanted, had := positive(f[0], longest), positive(f[1], longest), positive(f[2], longest)
		if slices.Contains(misses, name) && float64(had) >= leastTurn*float64(wanted) && had > 0 && v >= 0 {
			// It took turns with others: as much in the time that was not seen as in that which was.
			v, had = int64(min(float64(v)*max(float64(wanted)/float64(had), 1), math.MaxInt64/2)), wanted
		}
		switch {
		case v < 0 || wanted < 0 || had < 0:
			m.missing(name, "the processor's counter cannot be read")
		case float64(had) < turn*float64(wanted) || wanted == 0:
			m.missing(name, "the processor has too few counters for all who asked: this one did not count all the time")
		case float64(wanted) < turn*float64(m.self+m.children)-lag: // it counts only while its thread runs
			m.missing(name, "the processor counts one thread, and others worked as well")
		default:
			m.count(name, v)
		}
	}
}

// hardware explains the usual errors of perf_event_open.
func hardware(why string) string {
	_, errno, _ := strings.Cut(why, ": ")
	switch errno {
	case "no such file or directory", "operation not supported", "no such device":
		return "there is no counter of the processor: a virtual machine without a virtual PMU"
	case "permission denied", "operation not permitted":
		return "perf_event_open is not allowed: kernel.perf_event_paranoid, or a container's seccomp filter"
	case "device or resource busy":
		return "the processor has too few counters for all who asked"
	case "function not implemented":
		return "this kernel has no perf_event_open"
	}
	return why
}

// mostLanes bounds what a parameter may say.
const mostLanes = 1 << 16

// rest adds how many threads worked side by side, and what remains of the time. Threads cannot be counted by what each
// did: work wanders from one to another.
func (m *maker) rest() {
	elapsed := float64(m.ElapsedNS)
	known := 0.0
	for _, name := range record.AccountParts() {
		known += float64(m.Counts[name])
	}
	m.Lanes = math.Max(1, known/elapsed)
	if n := positive(m.Threads, mostLanes); n > 0 {
		m.Lanes = math.Max(m.Lanes, float64(n))
	}
	if m.Unmeasured[record.UserNS] != "" || m.Unmeasured[record.KernelNS] != "" {
		m.missing(record.OtherNS, "it is what remains, and the time on a processor is not known")
		return
	}
	m.count(record.OtherNS, int64(math.Round(math.Max(0, m.Lanes*elapsed-known))))
}
