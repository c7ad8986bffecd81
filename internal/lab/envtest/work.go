package envtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload/all"
	"tare/internal/record"
)

// workTime bounds one trial. It is long enough for an emulated machine.
const workTime = 8 * time.Minute

// Work does a number of units of a kind with the given parameters, resolved as in a plan.
func Work(t testing.TB, s *deploy.Conn, job wire.Job, work int64) (wire.Result, error) {
	t.Helper()
	kind, ok := all.Lookup(job.Kind)
	if !ok {
		t.Fatalf("there is no workload kind %s", job.Kind)
	}
	params, err := kind.Resolve(job.Params)
	if err != nil {
		t.Fatal(err)
	}
	job.Params, job.Service = params, kind.ServiceKey(params)
	ctx, cancel := context.WithTimeout(t.Context(), workTime)
	defer cancel()
	got, err := s.Run(ctx, wire.Run{Job: job, Work: work})
	return got.Result, err
}

// Pages checks that an environment's own nginx serves the same page as everywhere, and returns the results by kind.
func Pages(t testing.TB, s *deploy.Conn, requests, restarts int64) map[string]wire.Result {
	t.Helper()
	seen := map[string]wire.Result{}
	for name, work := range map[string]int64{"http.get": requests, "http.cold": restarts} {
		r, err := Work(t, s, wire.Job{Kind: name, Cell: name, Seed: 42}, work)
		if err != nil {
			if f, ok := errors.AsType[*record.Failure](err); ok {
				t.Logf("%s", f.Evidence)
			}
			t.Fatalf("%s: %v", name, err)
		}
		if r.Checks["page"] != "16384 bytes 224e674870f47205b042e29307b2eada" ||
			!strings.HasPrefix(r.State["server"], "nginx/") {
			t.Errorf("%s: checks %v, state %v", name, r.Checks, r.State)
		}
		seen[name] = r
	}
	return seen
}
