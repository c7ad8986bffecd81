package web

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/lab/nstest"
	"tare/internal/measure/netpeer"
	"tare/internal/measure/netpeer/peertest"
	"tare/internal/measure/workload"
	"tare/internal/measure/workload/trialtest"
	"tare/internal/record"
	"tare/internal/sys/sock"
)

func fetchAt(t *testing.T, p workload.Peer, prepared func()) *workload.Kind {
	return peertest.At(trialtest.Named(t, Kinds(), "http.fetch"), p, prepared)
}

// TestFetch: pages of a server that the peer starts, which is the same for each trial and gone with the peer.
func TestFetch(t *testing.T) {
	needNginx(t)
	pages := NewHost()
	defer pages.Close()
	p := peertest.Start(t, pages)
	for _, given := range []map[string]string{nil, {"connections": "8", "threads": "2"}, {"keepalive": "no"},
		{"size": "300KiB"}} {
		b := trialtest.Run(t, fetchAt(t, p, nil), given, 200)
		if given["size"] == "" && b.Checks["page"] != "16384 bytes 224e674870f47205b042e29307b2eada" ||
			b.State["controller_cpu_share"] == "" || b.State["client_cpu_share"] != "" ||
			!strings.HasPrefix(b.State["server"], "nginx/") {
			t.Errorf("%v: checks %v, state %v", given, b.Checks, b.State)
		}
	}
	if len(pages.servers) != 2 {
		t.Errorf("there are %d servers for two pages", len(pages.servers))
	}
	var pids []int
	for _, n := range pages.servers {
		pids = append(pids, n.process.Pid())
	}
	dir := pages.dir
	if err := pages.Close(); err != nil {
		t.Error(err)
	}
	for _, pid := range pids {
		gone(t, pid)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", dir, err)
	}
}

// TestFetchFails: a server that dies, one that there is not, and a peer that serves none.
func TestFetchFails(t *testing.T) {
	needNginx(t)
	pages := NewHost()
	defer pages.Close()
	p := peertest.Start(t, pages)
	kill := func() {
		for _, n := range pages.servers {
			unix.Kill(n.process.Pid(), unix.SIGKILL)
			<-n.process.Done()
		}
	}
	_, err := trialtest.Try(t, fetchAt(t, p, kill), nil, 200)
	if f, ok := errors.AsType[*record.Failure](err); !ok || f.Kind != "measure" ||
		!strings.Contains(f.Message,
			"on the controller's machine: nginx has ended; its log says: [nginx: signal: killed]") {
		t.Errorf("a server that was killed: %v", err)
	}
	_, err = trialtest.Try(t, fetchAt(t, peertest.Start(t, nil), nil), nil, 1)
	if f, ok := errors.AsType[*record.Failure](err); !ok || f.Kind != "refused" ||
		!strings.Contains(f.Message, "this peer does not serve pages") {
		t.Errorf("a peer without pages: %v", err)
	}
	for _, size := range []int64{0, -1, maxPage + 1} {
		if _, err := pages.Serve(netpeer.Place{}, size, 1); err == nil {
			t.Errorf("a page of %d bytes is served", size)
		}
	}
}

// TestFetchInAnotherNetwork: a page that is served in a network namespace is reached there and nowhere else, by a
// server that is not in it, and each place has its own.
func TestFetchInAnotherNetwork(t *testing.T) {
	needNginx(t)
	if os.Geteuid() != 0 {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("network namespaces need root")
		}
		t.Skip("network namespaces need root")
	}
	space, err := nstest.New(":")
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	pages := NewHost()
	defer pages.Close()
	at := netpeer.Place{Address: netip.MustParseAddr("127.0.0.1"), Space: "/proc/" + space.Network()[2] + "/ns/net"}
	there, err := pages.Serve(at, 3000, 7)
	if err != nil {
		t.Fatal(err)
	}
	here, err := pages.Serve(netpeer.Place{Address: at.Address}, 3000, 7)
	if err != nil || len(pages.servers) != 2 {
		t.Fatalf("%d servers, %v", len(pages.servers), err)
	}
	if again, err := pages.Serve(at, 3000, 7); err != nil || again.Port != there.Port || len(pages.servers) != 2 {
		t.Errorf("asked again: %+v, %v, want %+v", again, err, there)
	}
	page := func(port int) (text string, err error) {
		to, err := sock.ParseAddress(fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return "", err
		}
		fd, err := to.TCP()
		if err != nil {
			return "", err
		}
		defer sock.Close(fd)
		err = sock.Connect(fd, &to, time.Minute)
		if err == nil {
			err = errors.Join(sock.Limit(fd, time.Minute),
				sock.WriteFull(fd, []byte("GET /page.bin HTTP/1.0\r\n\r\n")))
		}
		for buf := make([]byte, 4096); err == nil; {
			var n int
			n, err = sock.Read(fd, buf)
			text += string(buf[:n])
		}
		if err == io.EOF {
			err = nil
		}
		_, text, _ = strings.Cut(text, "\r\n\r\n")
		return text, err
	}
	near, err := page(here.Port)
	if err != nil || len(near) != 3000 {
		t.Fatalf("here: %d bytes, %v", len(near), err)
	}
	if text, err := page(there.Port); err == nil && text == near && there.Port != here.Port {
		t.Error("the page of the other network is reached from here")
	}
	for range 3 {
		var far string
		if err := sock.In(at.Space, func() (err error) {
			far, err = page(there.Port)
			return err
		}); err != nil || far != near {
			t.Errorf("there: %d bytes, %v", len(far), err)
		}
	}
	at.Space = "/proc/none/ns/net"
	if _, err := pages.Serve(at, 3000, 7); err == nil || !strings.Contains(err.Error(), at.Space) {
		t.Errorf("a network that there is not: %v", err)
	}
}
