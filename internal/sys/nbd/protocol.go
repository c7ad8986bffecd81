package nbd

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Figures of the protocol, from doc/proto.md of the NetworkBlockDevice project.
const (
	magicServer   = 0x4e42444d41474943 // "NBDMAGIC"
	magicOption   = 0x49484156454f5054 // "IHAVEOPT"
	magicOptReply = 0x3e889045565a9
	magicRequest  = 0x25609513
	magicReply    = 0x67446698

	flagFixedNewstyle = 1 << 0
	flagNoZeroes      = 1 << 1

	optExportName = 1
	optAbort      = 2
	optList       = 3
	optInfo       = 6
	optGo         = 7

	repAck        = 1
	repServer     = 2
	repInfo       = 3
	repErrUnsup   = 1<<31 + 1
	repErrInvalid = 1<<31 + 3
	repErrUnknown = 1<<31 + 6
	repErrTooBig  = 1<<31 + 9
	infoExport    = 0
	infoBlockSize = 3

	transHasFlags    = 1 << 0
	transFlush       = 1 << 2
	transFUA         = 1 << 3
	transTrim        = 1 << 5
	transWriteZeroes = 1 << 6
	transFlags       = transHasFlags | transFlush | transFUA | transTrim | transWriteZeroes

	cmdRead        = 0
	cmdWrite       = 1
	cmdDisconnect  = 2
	cmdFlush       = 3
	cmdTrim        = 4
	cmdWriteZeroes = 6

	cmdFlagFUA    = 1 << 0
	cmdFlagNoHole = 1 << 1
)

// The protocol's error numbers, which are Linux's whatever the system.
const (
	errIO          = 5
	errInvalid     = 22
	errNoSpace     = 28
	errOverflow    = 75
	errUnsupported = 95
)

// Limits of a client's requests, in bytes.
const (
	// MaxTransfer is the longest read or write, as the handshake tells; QEMU splits its requests accordingly. With
	// maxFlight it bounds the memory that a client can make the server use.
	MaxTransfer = 4 << 20
	maxOption   = 4 << 10 // payload of an option
	maxOptions  = 64      // options before the transmission
	maxName     = 4 << 10 // of an export
	blockMin    = 1
	blockBest   = 4 << 10
	sector      = 512 // the smallest unit that a power loss never tears
)

const requestSize = 28

// request is the header of a command.
type request struct {
	flags  uint16
	cmd    uint16
	handle uint64
	offset uint64
	length uint32
}

// readRequest reads a header. After an invalid header the rest of the stream cannot be trusted.
func readRequest(r io.Reader, b *[requestSize]byte) (q request, err error) {
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return q, err
	}
	if m := binary.BigEndian.Uint32(b[0:]); m != magicRequest {
		return q, fmt.Errorf("read request: it begins with %#x instead of %#x", m, magicRequest)
	}
	return request{
		flags: binary.BigEndian.Uint16(b[4:]), cmd: binary.BigEndian.Uint16(b[6:]),
		handle: binary.BigEndian.Uint64(b[8:]),
		offset: binary.BigEndian.Uint64(b[16:]), length: binary.BigEndian.Uint32(b[24:]),
	}, nil
}

// check returns the error number of a request, 0 if it is valid.
func (q *request) check(size int64) uint32 {
	allowed := uint16(0)
	switch q.cmd {
	case cmdRead, cmdFlush, cmdDisconnect, cmdTrim, cmdWrite:
		allowed = cmdFlagFUA // clients may set it on all commands; it only affects writes
	case cmdWriteZeroes:
		allowed = cmdFlagFUA | cmdFlagNoHole
	default:
		return errInvalid
	}
	if q.flags&^allowed != 0 {
		return errInvalid
	}
	if q.cmd == cmdFlush || q.cmd == cmdDisconnect {
		return 0
	}
	// offset may be up to 2^64-1, so it is compared before anything is added.
	if q.offset > uint64(size) || uint64(q.length) > uint64(size)-q.offset {
		if q.cmd == cmdRead || q.cmd == cmdTrim {
			return errInvalid
		}
		return errNoSpace
	}
	if (q.cmd == cmdRead || q.cmd == cmdWrite) && q.length > MaxTransfer {
		return errOverflow
	}
	return 0
}

const replySize = 16

func marshalReply(b []byte, errno uint32, handle uint64) {
	binary.BigEndian.PutUint32(b[0:], magicReply)
	binary.BigEndian.PutUint32(b[4:], errno)
	binary.BigEndian.PutUint64(b[8:], handle)
}
