package nstest

import (
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
)

// Daemons hands out daemons of a kind to the tests of a package.
type Daemons[D io.Closer] struct {
	Name  string // "dockerd"
	Start func(t testing.TB) D

	mu      sync.Mutex
	managed bool
	running bool
	daemon  D
}

// Share lets all tests of the package use one daemon, which stop ends. TestMain calls it.
func (d *Daemons[D]) Share() (stop func()) {
	d.managed = true
	return func() {
		if !d.running {
			return
		}
		if err := d.daemon.Close(); err != nil {
			fmt.Fprintf(os.Stderr, "stop the shared %s: %v\n", d.Name, err)
		}
	}
}

// Shared returns a running daemon. If TestMain called Share, all tests of the package share it; otherwise it ends with
// the test.
func (d *Daemons[D]) Shared(t testing.TB) D {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.managed {
		return d.New(t)
	}
	if !d.running {
		d.daemon = d.Start(t)
		d.running = true
	}
	return d.daemon
}

// New returns a running daemon that ends with the test. It is for tests that kill the daemon.
func (d *Daemons[D]) New(t testing.TB) D {
	t.Helper()
	daemon := d.Start(t)
	t.Cleanup(func() {
		if err := daemon.Close(); err != nil {
			t.Errorf("stop %s: %v", d.Name, err)
		}
	})
	return daemon
}
