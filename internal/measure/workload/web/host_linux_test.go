package web

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tare/internal/measure/netpeer/peertest"
	"tare/internal/measure/workload"
	"tare/internal/measure/workload/trialtest"
	"tare/internal/record"
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
		if _, err := pages.Serve(size, 1); err == nil {
			t.Errorf("a page of %d bytes is served", size)
		}
	}
}
