package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tare/internal/lab/env"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// hostThreads reads the CPU times of what works for an environment on this machine: each thread of its own processes,
// and the processes and threads of the kernel that serve it.
func hostThreads(opened env.Env) func() (map[proc.Thread]time.Duration, error) {
	own, ok := opened.(env.HostProcesses)
	if !ok {
		return nil
	}
	servers := func() []int { return nil }
	if s, ok := opened.(env.HostServers); ok {
		servers = s.Servers
	}
	return func() (map[proc.Thread]time.Duration, error) {
		all := map[proc.Thread]time.Duration{}
		for _, pid := range own.Processes() {
			times, err := proc.ThreadTimes(pid)
			if err != nil {
				return nil, err
			}
			maps.Copy(all, times)
		}
		for _, pid := range servers() {
			name := proc.Name(pid)
			if used, ok := proc.CPUTime(pid); ok && name != "" { // else it has just ended
				all[proc.Thread{ID: pid, Name: name}] = used
			}
		}
		return all, nil
	}
}

// hostProcesses lists the processes of this machine that work for an environment all the time. Threads of the kernel
// make no system calls, so they are of no interest to whom lists processes.
func hostProcesses(opened env.Env) func() []int {
	own, ok := opened.(env.HostProcesses)
	if !ok {
		return nil
	}
	return func() []int {
		all := own.Processes()
		if s, ok := opened.(env.HostServers); ok {
			all = append(slices.Clone(all), s.Servers()...)
		}
		return all
	}
}

// hostWatch watches what works for an environment on this machine during a trial.
type hostWatch struct {
	read   func() (map[proc.Thread]time.Duration, error)
	before map[proc.Thread]time.Duration
}

// watchHost begins; the result may be used where nothing is known.
func watchHost(read func() (map[proc.Thread]time.Duration, error)) (h hostWatch) {
	if read != nil {
		if before, err := read(); err == nil {
			h = hostWatch{read, before}
		}
	}
	return h
}

// used is the CPU time since the beginning by what used it. Threads that have ended meanwhile are not in it.
func (h *hostWatch) used() map[string]time.Duration {
	if h.read == nil {
		return nil
	}
	after, err := h.read()
	if err != nil {
		return nil
	}
	all := map[string]time.Duration{}
	for thread, now := range after {
		d := now - h.before[thread]
		if d < 0 {
			d = now // the id is another thread's by now
		}
		if d > 0 {
			all[doer(thread.Name)] += d
		}
	}
	return all
}

// doer is the name of a thread without what tells it from others of its kind: a vhost's has the id of its QEMU, and a
// Samba's or OpenSSH's the client.
func doer(name string) string {
	if id, ok := strings.CutPrefix(name, "vhost-"); ok && strings.Trim(id, "0123456789") == "" {
		return "vhost"
	}
	name, _, _ = strings.Cut(name, "[")
	name, _, _ = strings.Cut(name, ": ")
	return strings.TrimSpace(name)
}

// hostFigures adds what worked for the environment on this machine, and how long, as a state to a trial that has ended
// well, and the kind's figure of the sum.
func (x *trialRunner) hostFigures(h hostWatch, w *plan.Workload, t *record.Trial) {
	if t.Error != nil || t.Work < 1 {
		return
	}
	used := h.used()
	if len(used) == 0 {
		return
	}
	var sum time.Duration
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(used)) {
		sum += used[name]
		parts = append(parts, fmt.Sprintf("%s %.3f s", name, used[name].Seconds()))
	}
	if t.State == nil {
		t.State = map[string]string{}
	}
	t.State["host_cpu"] = strings.Join(parts, ", ")
	k, ok := x.peer.kinds(w.Kind)
	if !ok || k.HostCPU == nil {
		return
	}
	if metric, v := k.HostCPU(sum, t.Work); metric != "" {
		if t.Metrics == nil {
			t.Metrics = map[string]float64{}
		}
		t.Metrics[metric] = v
	}
}
