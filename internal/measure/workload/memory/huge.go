package memory

import (
	"errors"
	"fmt"

	"tare/internal/measure/workload"
	"tare/internal/sys/thread"
)

// hugeMin is the smallest size for which huge pages can be expected.
const hugeMin = 2 << 20

// noteHuge records how much of the memory got huge pages, and warns if the request was refused.
func noteHuge(b *workload.Bench, name string, buf *thread.Buffer, asked thread.Huge) {
	share, err := buf.HugeShare()
	if err != nil {
		if !errors.Is(err, thread.ErrUnsupported) {
			b.Note(name, "unknown: "+err.Error())
			return
		}
		b.Note(name, "unknown")
		return
	}
	b.Note(name, fmt.Sprintf("%.0f%%", 100*share))
	if asked == thread.HugeOn && share < 0.5 && len(buf.Bytes) >= hugeMin {
		b.Warn("huge-pages-refused",
			fmt.Sprintf("huge pages were requested, but only %.0f %% of the memory (%s) got them", 100*share, name),
			"check /sys/kernel/mm/transparent_hugepage/enabled, and whether the memory is fragmented")
	}
}
