package nfsd

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
)

// NetNSOptions configure a namespace.
type NetNSOptions struct {
	// Folder is the absolute path of the folder to serve.
	Folder string
	// Address is the IPv4 address of the namespace's network card, in a network of 24 bits; without one there is only
	// loopback.
	Address string
}

func (o *NetNSOptions) check() error {
	if o.Address == "" {
		return nil
	}
	if a, err := netip.ParseAddr(o.Address); err != nil || !a.Is4() {
		return fmt.Errorf("%q is not an IPv4 address", o.Address)
	}
	return nil
}

// maxMessages is how many lines of the kernel's messages are evidence.
const maxMessages = 20

// about returns the last lines of a kernel's messages that are about its NFS server.
func about(log []byte) []byte {
	var lines [][]byte
	for line := range bytes.Lines(log) {
		lower := bytes.ToLower(line)
		if slices.ContainsFunc([]string{"nfsd", "lockd", "rpcbind", "svc:", "sunrpc"},
			func(w string) bool { return bytes.Contains(lower, []byte(w)) }) {
			lines = append(lines, line)
		}
	}
	return bytes.Join(lines[max(0, len(lines)-maxMessages):], nil)
}
