package container

import (
	"strings"
	"testing"

	"tare/internal/lab/env"
)

func TestControlGroupsAreReadBack(t *testing.T) {
	list, err := parseInspect([]byte(`[{"Id":"1","HostConfig":{"CpuShares":512,"BlkioDeviceWriteBps":` +
		`[{"Path":"/dev/vda","Rate":10485760}],"BlkioDeviceReadIOps":[{"Path":"/dev/vda","Rate":100}]}}]`))
	if err != nil {
		t.Fatal(err)
	}
	got := list[0].facts(engineInfo{}, image{}, workDir).Settings
	for name, want := range map[string]string{"weight": "512", "write_bps": "/dev/vda:10MiB",
		"read_iops": "/dev/vda:100",
		"read_bps":  ""} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	asked := env.Spec{Settings: map[string]string{"weight": "512", "write_bps": "/dev/vda:10MiB"}}
	if err := list[0].HostConfig.dropped(asked); err != nil {
		t.Error(err)
	}
	asked.Settings["write_iops"] = "/dev/vda:5"
	if err := list[0].HostConfig.dropped(asked); err == nil || !strings.Contains(err.Error(), "dropped write_iops=") {
		t.Errorf("what the engine dropped: %v", err)
	}
}

func TestLimitsThatCannotBe(t *testing.T) {
	for _, d := range limitSettings() {
		for _, bad := range []string{"", "x", "0", "-1", "/dev/vda", "/dev/vda:0", "/dev/vda:-1", "vda:1MiB",
			"/dev/../x:1",
			"/dev/vda:1MiB:2", "--x:1"} {
			if d.Check(bad) == nil {
				t.Errorf("%s=%q was taken", d.Name, bad)
			}
		}
	}
}

func FuzzThrottle(f *testing.F) {
	f.Add("/dev/vda:10MiB")
	f.Fuzz(func(t *testing.T, v string) {
		for _, x := range throttles() {
			if r, err := x.parse(v); err == nil && (r.Rate == 0 || !strings.HasPrefix(r.Path, "/dev/")) {
				t.Errorf("%q gives %+v", v, r)
			}
		}
	})
}
