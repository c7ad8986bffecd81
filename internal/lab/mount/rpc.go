package mount

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// The Sun RPC programs of an NFS server.
const (
	programNFS   = 100003
	programMount = 100005
)

// askNFS asks a server for its folder, like a client before it mounts: over TCP or UDP and, for version 3, with the
// mount protocol at the second port.
func askNFS(ctx context.Context, ports []int, vers, proto string) error {
	if vers == "3" {
		if _, err := callRPC(ctx, proto, ports[0], programNFS, 3, 0, nil); err != nil {
			return fmt.Errorf("NFS 3 over %s: %w", proto, err)
		}
		// MNT (RFC 1813, section 5.2.1) with the folder's name.
		answer, err := callRPC(ctx, proto, ports[1], programMount, 3, 1, xdrBytes(nil, nfsPseudo))
		if err == nil {
			err = status(answer)
		}
		if err != nil {
			return fmt.Errorf("mount protocol, %s: %w", nfsPseudo, err)
		}
		return nil
	}
	// COMPOUND (RFC 7530, section 15.2) of PUTROOTFH and LOOKUP, in minor version 0, which needs no session.
	const compound, putRootFH, lookupName = 1, 24, 15
	args := xdrBytes(nil, "") // tag
	args = xdrInts(args, 0, 2, putRootFH, lookupName)
	args = xdrBytes(args, nfsPseudo[1:])
	answer, err := callRPC(ctx, "tcp", ports[0], programNFS, 4, compound, args)
	if err == nil {
		err = status(answer)
	}
	if err != nil {
		return fmt.Errorf("NFS 4, %s: %w", nfsPseudo, err)
	}
	return nil
}

// status reads the first word of an answer, which is 0 for success.
func status(answer []byte) error {
	if len(answer) < 4 {
		return errors.New("the answer is empty")
	}
	if s := binary.BigEndian.Uint32(answer); s != 0 {
		return fmt.Errorf("status %d", s)
	}
	return nil
}

func xdrInts(b []byte, words ...uint32) []byte {
	for _, w := range words {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

// xdrBytes appends a string with its length, padded to a multiple of four bytes (RFC 4506, section 4.11).
func xdrBytes(b []byte, s string) []byte {
	b = append(xdrInts(b, uint32(len(s))), s...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// maxRPC bounds an answer, in bytes.
const maxRPC = 64 << 10

// callRPC makes one call (RFC 5531) as user 0 and returns its results.
func callRPC(ctx context.Context, proto string, port int, program, version, procedure uint32,
	args []byte) ([]byte, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, proto+"4", address(port))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * time.Second))
	const call, rpcVersion, authSys = 0, 2, 1
	transaction := uint32(time.Now().UnixNano())
	credential := xdrInts(xdrBytes(xdrInts(nil, 0), "tare"), 0, 0, 0) // stamp, machine, uid, gid, no groups
	m := xdrInts(nil, transaction, call, rpcVersion, program, version, procedure, authSys)
	m = xdrInts(xdrBytes(m, string(credential)), 0, 0) // no verifier
	m = append(m, args...)
	var answer []byte
	if proto == "udp" {
		if _, err := c.Write(m); err != nil {
			return nil, err
		}
		answer = make([]byte, maxRPC)
		n, err := c.Read(answer)
		if err != nil {
			return nil, err
		}
		answer = answer[:n]
	} else {
		const last = 1 << 31
		if _, err := c.Write(append(xdrInts(nil, last|uint32(len(m))), m...)); err != nil {
			return nil, err
		}
		var mark [4]byte
		if _, err := io.ReadFull(c, mark[:]); err != nil {
			return nil, err
		}
		n := binary.BigEndian.Uint32(mark[:])
		if n&last == 0 || n&^last > maxRPC {
			return nil, fmt.Errorf("the answer has %d bytes, or more than one fragment", n&^last)
		}
		answer = make([]byte, n&^last)
		if _, err := io.ReadFull(c, answer); err != nil {
			return nil, err
		}
	}
	return parseReply(answer, transaction)
}

// parseReply returns the results in a reply: transaction, 1 (reply), 0 (accepted), a verifier, 0 (success), results.
func parseReply(b []byte, transaction uint32) ([]byte, error) {
	word := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	if len(b) < 6*4 {
		return nil, fmt.Errorf("a reply of %d bytes is too short", len(b))
	}
	if word(0) != transaction || word(1) != 1 {
		return nil, errors.New("this is not the reply to the call")
	}
	if word(2) != 0 {
		return nil, fmt.Errorf("the call is denied (%d)", word(3))
	}
	verifier := (uint64(word(4)) + 3) &^ 3
	rest := b[5*4:]
	if verifier+4 > uint64(len(rest)) {
		return nil, errors.New("the reply is cut short")
	}
	rest = rest[verifier:]
	if s := binary.BigEndian.Uint32(rest); s != 0 {
		return nil, fmt.Errorf("the call is not accepted (%d)", s)
	}
	return rest[4:], nil
}
