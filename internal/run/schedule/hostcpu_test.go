package schedule

import (
	"errors"
	"testing"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// TestHostFigures gives the threads of an environment before and after a trial.
func TestHostFigures(t *testing.T) {
	type thread struct {
		ID   int
		Name string
	}
	type threads map[thread]time.Duration
	done := record.Trial{Work: 1}
	const ms = time.Millisecond
	counts := &workload.Kind{HostCPU: func(used time.Duration, work int64) (string, float64) {
		return "host_cpu_ms", float64(used/ms) / float64(work)
	}}
	for name, c := range map[string]struct {
		before, after threads
		kind          *workload.Kind
		trial         record.Trial
		failed        error
		state         string
		figure        float64
		partly        bool
	}{
		"by name": {
			before: threads{{1, "CPU 0/TCG"}: 10 * ms, {2, "CPU 1/TCG"}: 5 * ms, {3, "qemu"}: 7 * ms},
			after:  threads{{1, "CPU 0/TCG"}: 30 * ms, {2, "CPU 1/TCG"}: 5 * ms, {3, "qemu"}: 8 * ms},
			kind:   counts, trial: record.Trial{Work: 3}, state: "CPU 0/TCG 0.020 s, qemu 0.001 s", figure: 7,
		},
		"vhost, and a process for each client": {
			before: threads{{4, "vhost-17"}: 0, {5, "smbd[10.0.2.2]"}: ms},
			after: threads{{4, "vhost-17"}: 4 * ms, {5, "smbd[10.0.2.2]"}: 2 * ms, {6, "smbd"}: 3 * ms,
				{7, "vhost-x"}: ms},
			kind: counts, trial: done, state: "smbd 0.004 s, vhost 0.004 s, vhost-x 0.001 s", figure: 9,
		},
		"one has ended, one has its id": {
			before: threads{{1, "worker"}: 50 * ms, {2, "worker"}: 9 * ms},
			after:  threads{{1, "worker"}: 2 * ms},
			kind:   counts, trial: done, state: "worker 0.002 s", figure: 2,
		},
		"one has ended, the others work": {
			before: threads{{1, "worker"}: 50 * ms, {2, "worker"}: 9 * ms},
			after:  threads{{2, "worker"}: 19 * ms},
			kind:   counts, trial: done, state: "worker 0.010 s", figure: 10,
		},
		"a kind without a figure": {
			before: threads{{1, "virtiofsd"}: 0}, after: threads{{1, "virtiofsd"}: 6 * ms},
			kind: &workload.Kind{}, trial: done, state: "virtiofsd 0.006 s",
		},
		"nothing was used": {
			before: threads{{1, "qemu"}: ms}, after: threads{{1, "qemu"}: ms}, kind: counts, trial: done,
		},
		"the trial failed": {
			before: threads{{1, "qemu"}: 0}, after: threads{{1, "qemu"}: ms}, kind: counts,
			trial: record.Trial{Work: 1, Error: &record.Failure{Kind: "measure"}},
		},
		"no work": {before: threads{}, after: threads{{1, "qemu"}: ms}, kind: counts},
		"it is not known": {kind: counts, trial: done, failed: errors.New("it has ended"),
			state: "not measured: it has ended"},
		"only what serves it is read": {
			before: threads{{1, "dockerd"}: 0}, after: threads{{1, "dockerd"}: 6 * ms}, kind: counts, trial: done,
			partly: true, state: "dockerd 0.006 s",
		},
		"an unknown kind":  {before: threads{}, after: threads{{1, "q"}: ms}, trial: done, state: "q 0.001 s"},
		"nothing is known": {kind: counts, trial: done},
	} {
		t.Run(name, func(t *testing.T) {
			kinds := func(string) (*workload.Kind, bool) { return c.kind, c.kind != nil }
			x := &trialRunner{peer: &peerLink{kinds: kinds}}
			looks := []threads{c.before, c.after}
			read := func() (map[proc.Thread]time.Duration, error) {
				now := map[proc.Thread]time.Duration{}
				for who, used := range looks[0] {
					now[proc.Thread(who)] = used
				}
				looks = looks[1:]
				return now, c.failed
			}
			if c.before == nil && c.failed == nil {
				read = nil
			}
			trial := c.trial
			watched := watchHost(read)
			watched.partly = c.partly
			x.hostFigures(watched, &plan.Workload{}, &trial)
			if is := trial.State["host_cpu"]; is != c.state {
				t.Errorf("the state is %q, want %q", is, c.state)
			}
			if v, ok := trial.Metrics["host_cpu_ms"]; v != c.figure || ok != (c.figure > 0) {
				t.Errorf("the figure is %v, %v, want %v", v, ok, c.figure)
			}
		})
	}
}
