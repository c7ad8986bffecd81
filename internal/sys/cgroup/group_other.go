//go:build !linux

package cgroup

// Group is none.
type Group struct{}

// Check says that there are none.
func Check(*Limits) error { return ErrUnavailable }

// New says that there are none.
func New(string, *Limits) (*Group, error) { return nil, ErrUnavailable }

// Join changes nothing.
func (*Group) Join(argv []string) []string { return argv }

// Remove does nothing.
func (*Group) Remove() error { return nil }

// Find finds nothing.
func Find(string) []string { return nil }

// Clear does nothing.
func Clear(string) error { return ErrUnavailable }

// DiskOf says that there are none.
func DiskOf(string) (string, error) { return "", ErrUnavailable }

// DiskBelow says that there are none.
func DiskBelow(string) (string, error) { return "", ErrUnavailable }
