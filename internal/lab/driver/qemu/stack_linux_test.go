package qemu

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/netip"
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
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "memory", "1GiB", "nic", "virtio", "stack",
		envtest.SmallStack+",opcache=on"))
	o.Peer = true
	v, s := open(t, driver{}, o)
	if f := v.Facts(); f.Extra["stack.key"] != st.Key || f.Extra["root.format"] != "raw" {
		t.Errorf("facts %+v", f.Extra)
	}
	var state map[string]string
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
		state = r.State
	}
	// A client on this machine, over the card.
	envtest.Shell(t, s, "/bin/bash /srv/tare-stack/stack.sh control "+state["stack_home"]+" open 0.0.0.0")
	at, err := netip.ParseAddrPort(state["stack_varnish"])
	if err != nil {
		t.Fatal(err)
	}
	port, err := v.Forward(t.Context(), at.Port())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := v.Forward(t.Context(), at.Port()); err != nil || again != port {
		t.Errorf("asked again: port %d, %v", again, err)
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		fmt.Sprintf("http://127.0.0.1:%d/index.php/Page_3", port), nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Host = "stack.test"
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	page, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != http.StatusOK || !bytes.Contains(page, []byte("part of a test site")) {
		t.Errorf("%s, %v: %.300s", a.Status, err, page)
	}
}
