package collect

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"tare/internal/judge/fleet"
)

// TestManyHosts reads, judges and reports a large fleet. What a host takes in memory is bounded, and the report stays
// one that can be read:
//
//	TARE_FLEET_HOSTS=10000 go test ./internal/run/collect -run ManyHosts -v
func TestManyHosts(t *testing.T) {
	n, cells := 2000, 3
	if k, err := strconv.Atoi(os.Getenv("TARE_FLEET_HOSTS")); err == nil {
		n = k
	}
	dir := largeFleet(t, n, cells)
	a, err := Load(t.Context(), dir, options(t))
	if err != nil {
		t.Fatal(err)
	}
	r := fleet.Judge(a)
	var live runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&live)
	runtime.KeepAlive(a)
	if len(r.Hosts) != n || len(r.Cells) != cells {
		t.Fatalf("%d hosts, %d cells", len(r.Hosts), len(r.Cells))
	}
	var out bytes.Buffer
	if err := fleet.Text(&out, r, fleet.Options{}); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(out.String(), "\n"); lines > 150 ||
		!strings.Contains(out.String(), fmt.Sprintf("counted: all %d hosts", n)) {
		t.Errorf("%d lines:\n%.2000s", lines, out.String())
	}
	mib := float64(live.HeapAlloc) / (1 << 20)
	t.Logf("%d hosts with %d cells: %.0f MiB", n, cells, mib)
	if each := mib * 1024 / float64(n); each > 60 {
		t.Errorf("%.0f KiB for each host", each)
	}
	// None of them is there any more: each is named, and none makes the report longer.
	if err := os.RemoveAll(filepath.Join(dir, hostsDir)); err != nil {
		t.Fatal(err)
	}
	if a, err = Load(t.Context(), dir, options(t)); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := fleet.Text(&out, fleet.Judge(a), fleet.Options{}); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(out.String(), "\n"); len(a.Refused) != n || lines > 150 {
		t.Errorf("%d of %d are refused, in %d lines:\n%.2000s", len(a.Refused), n, lines, out.String())
	}
}
