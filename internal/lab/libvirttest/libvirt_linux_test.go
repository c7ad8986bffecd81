package libvirttest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"tare/internal/sys/proc"
)

// idle is a machine that has nothing to boot from, with an address in a network.
const idle = `<domain type="qemu"><name>idle</name><memory unit="MiB">32</memory><os><type>hvm</type></os>
<devices><interface type="network"><source network="lab"/></interface></devices></domain>`

const network = `<network><name>lab</name><bridge name="virbr7"/><ip address="192.168.177.1" netmask="255.255.255.0">
<dhcp><range start="192.168.177.2" end="192.168.177.9"/></dhcp></ip></network>`

func TestDaemonRunsMachinesAndLeavesNothing(t *testing.T) {
	d := start(t)
	closed := false
	t.Cleanup(func() {
		if !closed {
			d.Close()
		}
	})
	virsh := func(args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), callTime)
		defer cancel()
		if _, err := proc.Run(ctx, nil, append([]string{"virsh", "--connect", d.URI}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	virsh("net-create", write("net", network))
	virsh("create", write("idle", idle))
	if names, err := d.Domains(); err != nil || !slices.Equal(names, []string{"idle"}) {
		t.Fatalf("domains %v, %v", names, err)
	}
	// The network is the daemon's own.
	if _, err := proc.Run(t.Context(), nil, "ip", "link", "show", "virbr7"); err == nil {
		t.Error("the bridge is seen outside")
	}
	if _, err := proc.Run(t.Context(), nil, d.Inside("ip", "link", "show", "virbr7")...); err != nil {
		t.Error(err)
	}
	if err := d.Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := d.Run(); err != nil {
		t.Fatal(err)
	}
	t.Logf("libvirtd answers %v after its start", time.Since(began).Round(time.Millisecond))
	if names, err := d.Domains(); err != nil || !slices.Equal(names, []string{"idle"}) {
		t.Fatalf("domains after a restart: %v, %v", names, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	closed = true
	if _, err := os.Stat(d.Dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", d.Dir, err)
	}
}
