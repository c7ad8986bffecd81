package pid1

import (
	"slices"
	"testing"
)

func TestPartitionsOfADisk(t *testing.T) {
	for _, c := range []struct {
		disk          string
		entries, want []string
	}{
		{"vdb", []string{"alignment_offset", "vdb10", "vdb2", "vdb1", "queue"}, []string{"vdb1", "vdb2", "vdb10"}},
		{"nvme0n1", []string{"nvme0n1p2", "nvme0n1p1", "device"}, []string{"nvme0n1p1", "nvme0n1p2"}},
		{"vdb", []string{"vdbp", "vdbx1", "vd", "vdb"}, nil},
	} {
		if got := partitions(c.disk, c.entries); !slices.Equal(got, c.want) {
			t.Errorf("%s %v: %v, want %v", c.disk, c.entries, got, c.want)
		}
	}
}
