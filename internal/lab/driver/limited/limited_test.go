package limited

import (
	"strings"
	"testing"
	"time"

	"tare/internal/lab/env"
)

func TestSettings(t *testing.T) {
	good := map[string][]string{"weight": {"2", "262144"}, "quota": {"0.01", "2", "1.5", "none"},
		"cpuset": {"0", "0-1,3", "all"}, "memory": {"16MiB", "none"},
		"read_bps": {"1MiB", "/dev/vda:10MiB", "none"}, "write_iops": {"100", "/dev/disk/by-id/x_1:5"}}
	bad := map[string][]string{"weight": {"1", "262145", "x", "", "1.5"},
		"quota": {"0", "0.001", "-1", "1e3", "0x1", "x", "", "2000", "inf", "nan"}, "cpuset": {"", "x", "2-1", "1024"},
		"memory": {"1MiB", "x", ""}, "read_bps": {"", "0", "-1", "/dev/vda", "/dev/vda:0", "/dev/../x:1", "vda:1MiB",
			"/dev/vda:1MiB:2", "--x:1"}, "write_iops": {"1MiB", "0.5"}}
	all := Settings(false)
	for _, d := range all {
		if err := d.Check(d.Default); err != nil {
			t.Errorf("the default of %s: %v", d.Name, err)
		}
		for _, v := range good[d.Name] {
			if err := d.Check(v); err != nil {
				t.Errorf("%s=%s: %v", d.Name, v, err)
			}
		}
		for _, v := range bad[d.Name] {
			if d.Check(v) == nil {
				t.Errorf("%s=%q was taken", d.Name, v)
			}
		}
		if !strings.HasSuffix(d.Doc, ".") {
			t.Errorf("%s has no sentence: %q", d.Name, d.Doc)
		}
	}
	if own := Settings(true); len(own) != len(all)-1 {
		t.Errorf("%d settings with a memory of its own, %d without", len(own), len(all))
	}
}

func TestPatience(t *testing.T) {
	for quota, want := range map[string]time.Duration{"": time.Minute, "none": time.Minute, "2": time.Minute,
		"0.5": 2 * time.Minute, "0.01": time.Hour, "x": time.Minute} {
		if got := Patience(env.Spec{Settings: map[string]string{"quota": quota}}, time.Minute); got != want {
			t.Errorf("with quota=%s %v, want %v", quota, got, want)
		}
	}
}

// FuzzThrottle holds that a rate that is taken is a rate, and a device a file below /dev.
func FuzzThrottle(f *testing.F) {
	f.Add("/dev/vda:10MiB")
	f.Add("100")
	f.Fuzz(func(t *testing.T, v string) {
		for _, x := range Throttles() {
			device, rate, err := x.Parse(v)
			if err == nil && (rate == 0 || device != "" && !strings.HasPrefix(device, "/dev/")) {
				t.Errorf("%q gives %q, %d", v, device, rate)
			}
		}
	})
}
