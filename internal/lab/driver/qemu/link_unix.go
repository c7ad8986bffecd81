//go:build unix

package qemu

import (
	"cmp"
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
	id       string   // QEMU's name for it; "" for one of its own
	card     string   // "virtio", which "" means too, or "e1000"
	vhost    *os.File // /dev/vhost-net, if the kernel moves the packets
	vhostFD  int
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
	if l.vhost != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, l.vhost)
		l.vhostFD = 2 + len(cmd.ExtraFiles)
	}
}

// arguments are the options for a network card on the link.
func (l *link) arguments(bus string) []string {
	kind, more, device := "socket", "", "virtio-net-"+bus
	if l.tap {
		kind = "tap"
	}
	if l.vhost != nil {
		// Without force QEMU only warns where it cannot use it, and moves the packets itself.
		more = fmt.Sprintf(",vhost=on,vhostforce=on,vhostfd=%d", l.vhostFD)
	}
	if l.card == "e1000" {
		device = l.card
	}
	id := cmp.Or(l.id, fmt.Sprintf("link%d", l.fd))
	return []string{
		"-netdev", fmt.Sprintf("%s,id=%s,fd=%d%s", kind, id, l.fd, more),
		"-device", fmt.Sprintf("%s,netdev=%s,mac=%s%s", device, id, l.hardware, noROM(bus)),
	}
}

func (l *link) close() {
	for _, f := range []*os.File{l.file, l.vhost} {
		if f != nil {
			f.Close()
		}
	}
}
