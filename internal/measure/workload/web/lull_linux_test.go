package web

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"tare/internal/measure/workload"
)

// BenchmarkLulls is what looks and naps cost and spare on the environment's nginx: without them, and as the client
// does.
func BenchmarkLulls(b *testing.B) {
	for _, connections := range []string{"2", "32", "128"} {
		for name, s := range map[string]lull{"none": {}, "as it does": {most: lookTime}} {
			b.Run(fmt.Sprintf("%s/connections=%s", name, connections), func(b *testing.B) {
				benchmarkLulls(b, connections, s)
			})
		}
	}
}

func benchmarkLulls(b *testing.B, connections string, s lull) {
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
	t.crew.lanes[0].lull = s
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
