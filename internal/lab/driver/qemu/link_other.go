//go:build !unix

package qemu

import (
	"errors"
	"os"

	"tare/internal/sys/proc"
)

// link is one end of a network between two machines. It needs sockets that a child can inherit.
type link struct{}

func newLink(string, string) (a, b *link, err error) {
	return nil, nil, errors.New("linking two machines needs inherited sockets, which this system does not have; use " +
		"server=ganesha on Linux")
}

func newTapLink(string, *os.File) *link { return &link{} }

func (*link) give(*proc.Cmd) {}

func (*link) arguments(string) []string { return nil }

func (*link) close() {}
