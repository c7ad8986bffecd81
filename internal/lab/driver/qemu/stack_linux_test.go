package qemu

import (
	"testing"

	"tare/internal/lab/envtest"
	"tare/internal/lab/microvm"
)

// TestStack serves a real site in a micro-VM, whose processor is emulated.
func TestStack(t *testing.T) {
	if testing.Short() {
		t.Skip("the machine works for long")
	}
	t.Parallel()
	need(t, "amd64", microvm.Cloud)
	st := envtest.Stack(t, envtest.SmallStack)
	v, s := open(t, driver{}, options(t, spec("arch", "x86_64", "accel", "tcg", "memory", "1GiB", "stack",
		envtest.SmallStack+",opcache=on")))
	if f := v.Facts(); f.Extra["stack.key"] != st.Key || f.Extra["root.format"] != "raw" {
		t.Errorf("facts %+v", f.Extra)
	}
	for _, params := range [][]string{
		{"url", "stack:@front", "connections", "1"},
		{"url", "stack-varnish:@front", "cookie", "user", "connections", "1"},
	} {
		r, err := envtest.Load(t, s, "", params...)
		if err != nil {
			t.Fatalf("%v: %v", params, err)
		}
		if r.State["stack_key"] != st.Key || r.State["stack_opcache"] != "on" {
			t.Errorf("%v: state %v", params, r.State)
		}
		t.Logf("%v: prepared in %d ms, %.2f requests/s", params, r.SetupNS/1e6, r.Metrics["requests_per_second"])
	}
}
