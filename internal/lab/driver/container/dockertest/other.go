//go:build !linux

package dockertest

import (
	"errors"
	"testing"
)

// Daemon is a Docker daemon that belongs to a test. There is none on this platform.
type Daemon struct{ Host string }

var errUnsupported = errors.New("a Docker daemon of its own needs Linux")

// Client is the argv prefix that reaches the daemon.
func (d *Daemon) Client() []string { return []string{"docker", "--host", d.Host} }

// Share does nothing here.
func Share() (stop func()) { return func() {} }

// Start ends the test: no daemon can be started here.
func Start(t testing.TB) string { return New(t).Host }

// Shared ends the test: no daemon can be started here.
func Shared(t testing.TB) *Daemon { return New(t) }

// New ends the test: no daemon can be started here.
func New(t testing.TB) *Daemon {
	t.Helper()
	missing(t, errUnsupported.Error())
	return nil
}

// Run cannot be reached.
func (d *Daemon) Run() error { return errUnsupported }

// Kill cannot be reached.
func (d *Daemon) Kill() error { return errUnsupported }

// Stop cannot be reached.
func (d *Daemon) Stop() error { return errUnsupported }

// Podman ends the test: no store can be made here.
func Podman(t *testing.T) {
	t.Helper()
	missing(t, "a Podman store of its own needs Linux")
}

// Launch refuses: no daemon can be started here.
func Launch() (*Daemon, error) { return nil, errUnsupported }

// Close cannot be reached.
func (d *Daemon) Close() error { return errUnsupported }
