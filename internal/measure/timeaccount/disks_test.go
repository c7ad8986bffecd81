package timeaccount

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"tare/internal/record"
)

// stats is a /proc/diskstats: a disk with a partition, one of flash with a partition, and what is no disk.
func stats(reads, writes, flushes int) string {
	line := func(major int, name string, n int) string {
		return fmt.Sprintf(" %d 0 %s %d 5 %d 100 %d 7 %d 200 0 50 60 0 0 0 0 %d 9\n", major, name, n*reads, 8*n*reads,
			n*writes, 16*n*writes, n*flushes)
	}
	return line(1, "ram0", 1000) + line(7, "loop0", 1000) + line(254, "vda", 1) + line(254, "vda1", 1000) +
		line(259, "nvme0n1", 2) + line(259, "nvme0n1p1", 1000) + line(252, "dm-0", 1000)
}

func TestDisks(t *testing.T) {
	if got := parseDisks(stats(10, 20, 30)); len(got) != 2 || got["nvme0n1"] != (disk{20, 160, 40, 640, 60}) {
		t.Errorf("%+v", got)
	}
	of := func(before, after string) *record.Account {
		return Of(Input{OS: "linux", ElapsedNS: 300 * ms, State: state(1, 1), Before: map[string]string{
			"diskstats": before}, After: map[string]string{"diskstats": after}})
	}
	a := of(stats(10, 20, 30), stats(11, 22, 33))
	want := map[string]int64{record.DiskReads: 3, record.DisksReadBytes: 3 * 8 * 512, record.DiskWrites: 6,
		record.DisksWrittenBytes: 6 * 16 * 512, record.DiskFlushes: 9}
	got := map[string]int64{}
	for name := range want {
		got[name] = a.Counts[name]
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	old := func(n int) string {
		var b strings.Builder
		for line := range strings.Lines(stats(n, n, n)) {
			f := strings.Fields(line)
			b.WriteString(strings.Join(f[:14], " ") + "\n")
		}
		return b.String()
	}
	for name, c := range map[string]struct{ before, after, reads, flushes string }{
		"an old kernel":  {old(1), old(2), "", "this kernel does not count"},
		"cannot be read": {"!open /proc/diskstats: permission denied", "", "diskstats: perm", "diskstats: perm"},
		"no disks": {"7 0 loop0 1 1 1 1 1 1 1 1 1 1 1\n", "7 0 loop0 1 1 1 1 1 1 1 1 1 1 1\n", "no whole",
			"no whole"},
		"goes backwards":  {stats(5, 5, 5), stats(4, 4, 4), "its counter went", "its counter went"},
		"another machine": {"", "", "Linux does not tell", "Linux does not tell"},
		"nonsense":        {"a b c\n", "1 2 vda -1 x 5 6 7 8 9 10 11 12 13\n", "no whole", "no whole"},
		"cut":             {stats(1, 1, 1)[:200], stats(2, 2, 2)[:200], "", ""},
	} {
		a := of(c.before, c.after)
		if r := a.Unmeasured[record.DiskReads]; !strings.HasPrefix(r, c.reads) || c.reads == "" && r != "" {
			t.Errorf("%s: reads %q", name, r)
		}
		if f := a.Unmeasured[record.DiskFlushes]; !strings.HasPrefix(f, c.flushes) || c.flushes == "" && f != "" {
			t.Errorf("%s: flushes %q", name, f)
		}
	}
}

func FuzzDisks(f *testing.F) {
	f.Add(stats(1, 2, 3), stats(4, 5, 6))
	f.Add("8 0 sda 1 1 1 1 1 1 1 1 1 1 1", "8 0 sda 9223372036854775807 1 1 1 1 1 1 1 1 1 1\n")
	f.Fuzz(func(t *testing.T, before, after string) {
		if len(before)+len(after) > 64<<10 {
			return
		}
		a := Of(Input{OS: "linux", ElapsedNS: 300 * ms, State: state(1, 1),
			Before: map[string]string{"diskstats": before}, After: map[string]string{"diskstats": after}})
		sane(t, a, 300*ms)
	})
}
