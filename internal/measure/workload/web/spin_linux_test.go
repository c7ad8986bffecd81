package web

import (
	"fmt"
	"math"
	"testing"

	"golang.org/x/sys/unix"

	"tare/internal/measure/workload"
)

// BenchmarkLooks is what looks cost and spare on the environment's nginx: none, with each wait, and as the client
// learns.
func BenchmarkLooks(b *testing.B) {
	for _, connections := range []string{"2", "32", "128"} {
		for name, s := range map[string]spinner{"none": {}, "always": {most: spinTime, score: math.MaxInt},
			"learned": {most: spinTime}} {
			b.Run(fmt.Sprintf("%s/connections=%s", name, connections), func(b *testing.B) {
				benchmarkLooks(b, connections, s)
			})
		}
	}
}

func benchmarkLooks(b *testing.B, connections string, s spinner) {
	needNginx(b)
	kind := loadKind()
	p, err := kind.Resolve(map[string]string{"connections": connections, "size": "1KiB"})
	if err != nil {
		b.Fatal(err)
	}
	made, err := newTrial("http.load")(p)
	if err != nil {
		b.Fatal(err)
	}
	t, w := made.(*loadTrial), &workload.Bench{Dir: b.TempDir(), Seed: 1, Work: 1}
	defer t.Cleanup(w)
	if err := t.Setup(b.Context(), w); err != nil {
		b.Fatal(err)
	}
	t.crew.lanes[0].spin = s
	var before, after unix.Rusage
	cpu := ownTime()
	unix.Getrusage(unix.RUSAGE_SELF, &before)
	b.ResetTimer()
	if err := t.crew.run(b.Context(), int64(b.N)); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	cpu = ownTime() - cpu
	unix.Getrusage(unix.RUSAGE_SELF, &after)
	b.ReportMetric(float64(cpu.Nanoseconds())/1e3/float64(b.N), "cpu-us/op")
	b.ReportMetric(float64(after.Nvcsw-before.Nvcsw)/float64(b.N), "sleeps/op")
}
