//go:build !linux

package dockertest

import (
	"errors"
	"testing"
)

// Daemon is a Docker daemon for tests. There is none on this platform.
type Daemon struct{ Host string }

var errUnsupported = errors.New("a separate Docker daemon needs Linux")

// Client is the argv prefix for commands to the daemon.
func (d *Daemon) Client() []string { return []string{"docker", "--host", d.Host} }

// Share does nothing on this platform.
func Share() (stop func()) { return func() {} }

// Start ends the test: there is no daemon on this platform.
func Start(t testing.TB) string { return New(t).Host }

// Shared ends the test: there is no daemon on this platform.
func Shared(t testing.TB) *Daemon { return New(t) }

// New ends the test: there is no daemon on this platform.
func New(t testing.TB) *Daemon {
	t.Helper()
	missing(t, errUnsupported.Error())
	return nil
}

// Run is never called.
func (d *Daemon) Run() error { return errUnsupported }

// Kill is never called.
func (d *Daemon) Kill() error { return errUnsupported }

// Stop is never called.
func (d *Daemon) Stop() error { return errUnsupported }

// Podman ends the test: there is no store on this platform.
func Podman(t *testing.T) {
	t.Helper()
	missing(t, "a separate Podman store needs Linux")
}

// Launch returns an error: there is no daemon on this platform.
func Launch() (*Daemon, error) { return nil, errUnsupported }

// Close is never called.
func (d *Daemon) Close() error { return errUnsupported }
