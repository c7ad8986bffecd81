//go:build unix

// Package peertest gives tests of kinds of work a peer in their own process.
package peertest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"testing"

	"tare/internal/measure/netpeer"
	"tare/internal/measure/workload"
)

// Start starts a peer that ends with the test, and returns how it is reached. pages may be nil. It turns the garbage
// collector off: it would stop one end of a stream while the other waits for it without the scheduler's knowledge.
func Start(t testing.TB, pages netpeer.Pages) workload.Peer {
	t.Helper()
	growth := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(growth) })
	in, tell := io.Pipe()
	said, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- netpeer.Serve(in, out, pages) }()
	token := netpeer.NewToken().Text()
	go fmt.Fprintln(tell, token)
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		tell.Close()
		if err := <-ended; err != nil {
			t.Errorf("the peer ended with %v", err)
		}
	})
	return workload.Peer{Address: "127.0.0.1:" + strings.TrimSpace(line), Token: token}
}

// At is a kind whose trials know the peer. prepared, unless nil, is called when a trial is set up.
func At(kind *workload.Kind, p workload.Peer, prepared func()) *workload.Kind {
	k := *kind
	k.New = func(params workload.Params) (workload.Trial, error) {
		made, err := kind.New(params)
		return trial{made, p, prepared}, err
	}
	return &k
}

type trial struct {
	workload.Trial
	peer     workload.Peer
	prepared func()
}

func (a trial) Setup(ctx context.Context, b *workload.Bench) error {
	b.Peer = a.peer
	err := a.Trial.Setup(ctx, b)
	if err == nil && a.prepared != nil {
		a.prepared()
	}
	return err
}

func (a trial) Report(b *workload.Bench) error { return a.Trial.(workload.Reporter).Report(b) }
