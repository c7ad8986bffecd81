//go:build unix

package qemu

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"tare/internal/sys/proc"
)

// link is one end of a network between two machines. QEMU inherits it as an open file, so no name or port exists by
// which others could join.
type link struct {
	hardware string // MAC address of the card
	file     *os.File
	fd       int // the descriptor's number in QEMU
	tap      bool
}

func newLink(hardware, peer string) (a, b *link, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a network for two machines: %w", err)
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
	return &link{hardware: hardware, file: os.NewFile(uintptr(fds[0]), "link")},
		&link{hardware: peer, file: os.NewFile(uintptr(fds[1]), "link")}, nil
}

// newTapLink is a link whose other end is the card of a Linux tap device. The file still belongs to its owner.
func newTapLink(hardware string, tap *os.File) *link {
	return &link{hardware: hardware, file: tap, tap: true}
}

// give passes the end to a QEMU command. It also stays open here, for a retry of the boot.
func (l *link) give(cmd *proc.Cmd) {
	cmd.ExtraFiles = append(cmd.ExtraFiles, l.file)
	l.fd = 2 + len(cmd.ExtraFiles)
}

// arguments are the options for a network card on the link.
func (l *link) arguments(bus string) []string {
	kind := "socket"
	if l.tap {
		kind = "tap"
	}
	return []string{
		"-netdev", fmt.Sprintf("%s,id=link%d,fd=%d", kind, l.fd, l.fd),
		"-device", fmt.Sprintf("virtio-net-%s,netdev=link%d,mac=%s%s", bus, l.fd, l.hardware, noROM(bus)),
	}
}

func (l *link) close() { l.file.Close() }
