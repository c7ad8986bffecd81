package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"tare/internal/run/dispatch"
)

// TestFleetOfTenThousandIsTold holds that what is said of a large fleet can be read: counts now and then, the first
// that fail by name, and the end. Of a small one each change is a line.
func TestFleetOfTenThousandIsTold(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	play := func(n int, quiet bool) string {
		var out bytes.Buffer
		teller := &fleetTeller{w: &out, quiet: quiet, now: func() time.Time { return now }}
		parts := make([]dispatch.Part, n)
		set := func(i int, phase dispatch.Phase, detail string) {
			parts[i].Phase, parts[i].Detail = phase, detail
			teller.part(parts[i])
		}
		for i := range parts {
			parts[i] = dispatch.Part{Number: i + 1, Host: fmt.Sprintf("n%05d", i), Phase: dispatch.Absent}
		}
		teller.round(parts)
		for i := range parts { // 50 looks, 5 s each
			set(i, dispatch.Waiting, "")
			set(i, dispatch.Working, "")
			if i%50 == 49 {
				set(i, dispatch.Failed, "it is gone")
			} else {
				set(i, dispatch.Done, "")
			}
			if i%max(n/50, 1) == 0 {
				now = now.Add(5 * time.Second)
				teller.round(parts)
			}
		}
		teller.round(parts)
		return out.String()
	}
	large := play(10_000, false)
	if lines := strings.Count(large, "\n"); lines > 40 || lines < 25 {
		t.Errorf("%d lines:\n%s", lines, large)
	}
	for _, want := range []string{"10000 hosts  10000 not asked for yet\n", "failed     n00049: it is gone\n",
		"failed     more, which are counted below", "10000 hosts  9800 done, 200 failed\n"} {
		if !strings.Contains(strings.ReplaceAll(large, "10,000", "10000"), want) {
			t.Errorf("no %q in:\n%s", want, large)
		}
	}
	if strings.Contains(large, "n05") {
		t.Errorf("all that failed are named:\n%s", large)
	}
	if small := play(50, false); strings.Count(small, "\n") != 150 || strings.Contains(small, "50 hosts") {
		t.Errorf("of 50 hosts:\n%s", small)
	}
	if quiet := play(50, true); quiet != "failed     n00049: it is gone\n" {
		t.Errorf("quietly:\n%s", quiet)
	}
}
