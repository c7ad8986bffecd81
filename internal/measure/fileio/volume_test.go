package fileio

import "testing"

func TestAFileSystemInMemoryHoldsWhatTheMemoryCan(t *testing.T) {
	for _, c := range []struct {
		fs                     string
		free, available, bound int64
	}{
		{"tmpfs", 1 << 40, 1 << 20, 1 << 20}, {"tmpfs", 1 << 10, 1 << 20, 1 << 10}, {"ramfs", -1, 1 << 20, 1 << 20},
		{"tmpfs", 1 << 40, -1, 1 << 40}, {"ext4", 1 << 40, 1 << 20, 1 << 40},
	} {
		v := VolumeInfo{FS: c.fs, Free: c.free}
		if v.bound(func() int64 { return c.available }); v.Free != c.bound {
			t.Errorf("%+v: %d", c, v.Free)
		}
	}
}
