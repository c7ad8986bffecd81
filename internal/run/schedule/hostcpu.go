package schedule

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"tare/internal/lab/env"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

var (
	errHostEnded   = errors.New("its processes on this machine have ended")
	errHostUnknown = errors.New("its processes on this machine are not known")
)

// hostThreads returns a function that reads the CPU times of all that works for an environment on this machine: each
// thread of its own processes, and the processes and threads of the kernel that serve it. It is nil where only the
// agent works.
func hostThreads(opened env.Env) func() (map[proc.Thread]time.Duration, error) {
	processes, servers := func() []int { return nil }, func() []int { return nil }
	own, hasOwn := opened.(env.HostProcesses)
	if hasOwn {
		processes = own.Processes
	}
	s, served := opened.(env.HostServers)
	if served {
		servers = s.Servers
	}
	if _, alone := opened.(env.HostAgent); alone && !hasOwn && !served {
		return nil
	}
	return func() (map[proc.Thread]time.Duration, error) {
		all := map[proc.Thread]time.Duration{}
		ids := processes()
		ended := 0
		for _, pid := range ids {
			times, err := proc.ThreadTimes(pid)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
				ended++ // between the list and this look
				continue
			}
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
		switch {
		case ended > 0 && ended == len(ids):
			return nil, errHostEnded
		case len(all) == 0:
			return nil, errHostUnknown
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

// hostWatch measures the CPU time that an environment takes on this machine during a trial.
type hostWatch struct {
	read   func() (map[proc.Thread]time.Duration, error)
	before map[proc.Thread]time.Duration
	err    error // why nothing is known of it
	// partly says that only the servers of the environment are read, and not its own processes: the sum is no figure.
	partly bool
}

// watchHost begins; the result may be used where nothing is known.
func watchHost(read func() (map[proc.Thread]time.Duration, error)) (h hostWatch) {
	if h.read = read; read != nil {
		h.before, h.err = read()
	}
	return h
}

// used returns the CPU time since the beginning by the name of the thread; nil if that is not known. Threads that have
// ended meanwhile are not in it.
func (h *hostWatch) used() map[string]time.Duration {
	if h.read == nil || h.err != nil {
		return nil
	}
	after, err := h.read()
	if h.err = err; err != nil {
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

// doer returns the name of a thread without the part that tells it from others of its kind: the id of the QEMU in a
// vhost's, and the client in a Samba's or OpenSSH's.
func doer(name string) string {
	if id, ok := strings.CutPrefix(name, "vhost-"); ok && strings.Trim(id, "0123456789") == "" {
		return "vhost"
	}
	name, _, _ = strings.Cut(name, "[")
	name, _, _ = strings.Cut(name, ": ")
	return strings.TrimSpace(name)
}

// hostFigures adds to a trial that has ended well the CPU time on this machine by thread as a state, or the reason why
// it is not known, and the kind's figure of the sum.
func (x *trialRunner) hostFigures(h hostWatch, w *plan.Workload, t *record.Trial) {
	if t.Error != nil || t.Work < 1 {
		return
	}
	used := h.used()
	if len(used) == 0 && h.err == nil {
		return
	}
	if t.State == nil {
		t.State = map[string]string{}
	}
	if h.err != nil {
		t.State[record.HostCPU] = record.NotMeasured + h.err.Error()
		return
	}
	var sum time.Duration
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(used)) {
		sum += used[name]
		parts = append(parts, fmt.Sprintf("%s %.3f s", name, used[name].Seconds()))
	}
	t.State[record.HostCPU] = strings.Join(parts, ", ")
	k, ok := x.peer.kinds(w.Kind)
	if !ok || k.HostCPU == nil || h.partly {
		return
	}
	if metric, v := k.HostCPU(sum, t.Work); metric != "" {
		if t.Metrics == nil {
			t.Metrics = map[string]float64{}
		}
		t.Metrics[metric] = v
	}
}
