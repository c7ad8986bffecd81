package netns

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// attr is a netlink attribute: length, type, what it holds, and zeros to the next multiple of four.
func attr(kind uint16, holds ...[]byte) []byte {
	b := make([]byte, unix.SizeofRtAttr)
	for _, h := range holds {
		b = append(b, h...)
	}
	binary.NativeEndian.PutUint16(b, uint16(len(b)))
	binary.NativeEndian.PutUint16(b[2:], kind)
	for len(b)%unix.NLMSG_ALIGNTO != 0 {
		b = append(b, 0)
	}
	return b
}

func text(s string) []byte { return append([]byte(s), 0) }

func number(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// newCard asks the kernel for a card of a kind in the calling thread's namespace.
func newCard(kind, name string, data []byte, more ...[]byte) error {
	b := make([]byte, unix.SizeofNlMsghdr+unix.SizeofIfInfomsg)
	b = append(b, attr(unix.IFLA_IFNAME, text(name))...)
	for _, m := range more {
		b = append(b, m...)
	}
	b = append(b, attr(unix.IFLA_LINKINFO, attr(unix.IFLA_INFO_KIND, text(kind)), attr(unix.IFLA_INFO_DATA, data))...)
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], unix.RTM_NEWLINK)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	if err := ask(b); err != nil {
		return fmt.Errorf("make network card %s, a %s: %w", name, kind, err)
	}
	return nil
}

// ask sends a request to the kernel and waits until it has done what it says.
func ask(request []byte) error {
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	if err := unix.Sendto(s, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 8<<10) // it repeats the request
	n, _, err := unix.Recvfrom(s, answer, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return errors.New("the kernel's answer is not understood")
	}
	if code := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}
