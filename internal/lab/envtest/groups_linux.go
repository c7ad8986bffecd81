package envtest

import (
	"testing"

	"tare/internal/sys/cgroup"
)

// NeedControlGroups skips a test on a machine that lets nobody make control groups with the usual limits, as in most
// containers.
func NeedControlGroups(t testing.TB) {
	t.Helper()
	all := cgroup.Limits{Weight: 100, Quota: 1, CPUs: "0", Memory: 1 << 30, Rates: []cgroup.Rate{{Limit: 1}}}
	if err := cgroup.Check(&all); err != nil {
		t.Logf("%v", err)
		t.Skip("no control groups can be made on this machine")
	}
}
