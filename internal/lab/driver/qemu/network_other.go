//go:build !linux

package qemu

import (
	"fmt"

	"tare/internal/measure/netpeer"
)

// network needs Linux.
type network struct {
	card  *link
	place netpeer.Place
}

func makeNetwork(c *config) (*network, string, error) {
	remedy, err := canNetwork(c)
	return nil, remedy, err
}

func (*network) close() {}

func canNetwork(c *config) (remedy string, err error) {
	if c.net == netUser {
		return "", nil
	}
	return "use net=user", fmt.Errorf("net=%s needs the network namespaces of Linux", c.net)
}
