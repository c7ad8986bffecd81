package deploy_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/measure/netpeer"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload/all"
	"tare/internal/sys/iperf3/serve"
	"tare/internal/sys/sock"
)

// inWine runs the words behind the first two by the Wine in a root, which sees a folder as Z:\mnt. All of it is in
// namespaces that end with this process, so that nothing is left of Wine's server and services. The mount points are
// made in a layer above the root, which stays as it is.
const inWine = `set -e
root=$1 work=$2; shift 2
mount --make-rprivate /
mount -t tmpfs tmpfs "$work/layer"; mkdir "$work/layer/upper" "$work/layer/work"
mount -t overlay -o "lowerdir=$root,upperdir=$work/layer/upper,workdir=$work/layer/work" overlay "$work/root"
root=$work/root
for d in dev proc sys tmp mnt; do mkdir -p "$root/$d"; done
for d in lib lib64 bin; do [ -e "$root/$d" ] || ln -s "usr/$d" "$root/$d"; done
mount --rbind /dev "$root/dev"; mount --rbind /sys "$root/sys"; mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/tmp"; mount --bind "$work/mnt" "$root/mnt"
export WINEPREFIX=/mnt/prefix HOME=/mnt WINEDEBUG=-all WINEDLLOVERRIDES='winemenubuilder.exe,mscoree,mshtml='
export WINEDLLPATH=/usr/x86_64-w64-mingw32/lib WINESERVER=/usr/lib/wine/wineserver64
unset DISPLAY WAYLAND_DISPLAY TMPDIR # Wine with a TMPDIR frees what it must not
exec chroot "$root" /usr/lib/wine/wine64 "$@"`

// iperfServer is a server for iperf3 clients that ends with the test. Package iperf3 tests it with the real client.
func iperfServer(t *testing.T) string {
	s, err := serve.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s.Address().String()
}

// The agent for Windows, run by Wine: the handshake, facts, trials of processor, memory and files, and its end. Wine is
// not Windows; what it shows is that the calls are made as documented.
func TestWindowsAgentUnderWine(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: makes a Windows of 800 MB")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("no Wine for this processor")
	}
	root := os.Getenv("TARE_WINE_ROOT")
	if root == "" {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("TARE_WINE_ROOT names no root with a Wine, and TARE_REQUIRE is set; " +
				"scripts/deps.sh wine prints one")
		}
		t.Skip("TARE_WINE_ROOT names no root with a Wine; scripts/deps.sh wine prints one")
	}
	dir := t.TempDir()
	work := filepath.Join(dir, "mnt", "work")
	for _, d := range []string{work, filepath.Join(dir, "layer"), filepath.Join(dir, "root")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	agent, err := os.ReadFile(agenttest.Build(t, "windows", "amd64"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "mnt", "tare-agent.exe"), agent, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	stream := launch(t, "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", inWine, "sh", root, dir,
		"/mnt/tare-agent.exe", "agent", "--dir", `Z:\mnt\work`)
	s, err := deploy.Connect(within(t, patience), stream, "test")
	if err != nil {
		t.Fatal(err)
	}
	if h := s.Hello(); h.OS != "windows" || h.Arch != "amd64" {
		t.Errorf("the agent is %+v", h)
	}
	f, err := s.Facts(within(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(f.Kernel, "10.") || f.CPU == "" || f.MemoryBytes < 64<<20 || f.Threads < 1 ||
		f.Clock != "QueryPerformanceCounter" || f.WorkFS == "" || f.Extra["work.mount"] != `Z:\` {
		t.Errorf("facts %+v", f)
	}
	if n, err := strconv.ParseInt(f.Extra["work.free_bytes"], 10, 64); err != nil || n <= 0 {
		t.Errorf("free space %q", f.Extra["work.free_bytes"])
	}
	store := deploy.NewStore(t.TempDir())
	defer store.Close()
	store.Use(runtime.GOOS, runtime.GOARCH, agenttest.Build(t, runtime.GOOS, runtime.GOARCH))
	other := deploy.NewPeer(store)
	defer other.Close()
	port, token, err := other.Start(within(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	peer := &wire.Peer{Address: "127.0.0.1:" + strconv.Itoa(port), Token: token}
	inside := windowsPeer(t, s)
	iperf := iperfServer(t)
	for _, c := range []struct{ kind, params string }{
		{"cpu.prime", ""},
		{"memory.copy", "size=1MiB"},
		{"fs.seqwrite", "size=1MiB bs=64KiB fsync=end"},
		{"fs.seqwrite", "size=1MiB bs=64KiB fsync=full-each direct=yes"},
		{"fs.randread", "size=1MiB bs=4KiB direct=yes"},
		{"fs.smallfiles", "files=20"},
		{"durability.fsync", ""},
		{"net.stream", "block=64KiB"},
		{"net.stream", "direction=both streams=2 block=64KiB"},
		{"net.rr", "connections=3 size=100B"},
		{"net.connect", ""},
		{"net.udp", ""},
		{"net.udp", "direction=down rate=1000"},
		{"net.udp", "direction=both streams=2 rate=1000"},
		{"net.loaded", ""},
		{"net.stream", "streams=2 server=" + iperf},
	} {
		kind, ok := all.Lookup(c.kind)
		if !ok {
			t.Fatalf("there is no workload %s", c.kind)
		}
		given := map[string]string{}
		for _, p := range strings.Fields(c.params) {
			name, value, _ := strings.Cut(p, "=")
			given[name] = value
		}
		params, err := kind.Resolve(given)
		if err != nil {
			t.Fatal(err)
		}
		others := []*wire.Peer{peer}
		if kind.NeedsPeer(params) {
			others = append(others, inside)
		}
		for _, other := range others {
			o := run(t, s, wire.Run{Job: wire.Job{Kind: c.kind, Params: params, Cell: c.kind, Seed: 1, Peer: other},
				Work: 20})
			if o.Result.ElapsedNS <= 0 || len(o.Result.Metrics) == 0 {
				t.Errorf("%s %s gives %+v", c.kind, c.params, o.Result)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := left(t, work); len(n) != 0 {
		t.Errorf("left behind: %q", n)
	}
}

// windowsPeer starts the peer in the Windows of an agent, as to=NAME does and a controller on Windows, and has every
// operation done from here.
func windowsPeer(t *testing.T, s *deploy.Conn) *wire.Peer {
	t.Helper()
	token := netpeer.NewToken().Text()
	places, err := s.HostPeer(within(t, patience), token)
	if err != nil || len(places) == 0 {
		t.Fatalf("the peer in Windows listens at %q, %v", places, err)
	}
	for _, at := range places { // the loopback first, then each address of this machine
		if found, err := netpeer.Reached([]string{at}, token); err != nil || found != at {
			t.Errorf("at %s: %v", at, err)
		}
	}
	near := places[0]
	if _, err := netpeer.Reached([]string{near}, netpeer.NewToken().Text()); err == nil ||
		!strings.Contains(err.Error(), "another run") {
		t.Errorf("with another token: %v", err)
	}
	const size = 1000
	dialer := func(op netpeer.Op, size int) *netpeer.Dialer {
		d, err := netpeer.NewDialer(near, token, op, size)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	dial := func(op netpeer.Op, size int) *netpeer.Conn {
		c, err := dialer(op, size).Dial()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	block := make([]byte, size)
	if r, err := dial(netpeer.Up, size).Up(block, 10*size+1); err != nil || r.Bytes != 10*size+1 {
		t.Errorf("up: %+v, %v", r, err)
	}
	if r, err := dial(netpeer.Down, size).Down(block, 10*size+1); err != nil || r.Bytes != 10*size+1 {
		t.Errorf("down: %+v, %v", r, err)
	}
	if used, err := dial(netpeer.Usage, 0).Usage(); err != nil || used.CPU < 0 || used.CPUs < 1 {
		t.Errorf("it used %+v, %v", used, err)
	}
	if _, err := dial(netpeer.Page, 0).Page(1000, 1); err == nil || !strings.Contains(err.Error(), "pages") {
		t.Errorf("a page: %v", err)
	}
	flow, err := dialer(netpeer.Datagrams, 64).Flow()
	if err != nil {
		t.Fatal(err)
	}
	for name, send := range map[string]func(int64, time.Duration) (sock.Arrivals, error){"up": flow.Up,
		"down": flow.Down} {
		if a, err := send(20, time.Millisecond); err != nil || a.Received < 1 || a.Received > 20 {
			t.Errorf("datagrams %s: %+v, %v", name, a, err)
		}
	}
	if err := flow.Close(); err != nil {
		t.Error(err)
	}
	return &wire.Peer{Address: near, Token: token}
}
