package nfsd

import "encoding/binary"

// portMapper is the service with which the kernel registers its own services (RFC 1833), and without which it does not
// start the lock manager of version 3. Clients know the ports and never look them up, so it accepts every registration
// and stores none.
func portMapper() program {
	const set, unset = 1, 2 // of version 2 as of versions 3 and 4
	return program{number: 100000, low: 2, high: 4, call: func(procedure uint32, _ *reader) ([]byte, uint32) {
		if procedure != set && procedure != unset {
			return nil, procedureUnavailable
		}
		return words(1), success
	}}
}

// root is the only folder that is served, as clients name it.
const root = "/"

// mountProtocol is the service by which a client of version 3 gets the root's handle (RFC 1813, appendix I). It keeps
// no list of mounts, which was never reliable and which nobody reads.
func mountProtocol(handle []byte) program {
	const (
		mnt, umnt, umntAll = 1, 3, 4
		ok, noEntry        = 0, 2
		maxPath            = 1024
		authSys            = 1
	)
	return program{number: 100005, low: 3, high: 3, call: func(procedure uint32, arguments *reader) ([]byte, uint32) {
		var path []byte
		if procedure == mnt || procedure == umnt {
			path = arguments.opaque(maxPath)
		}
		switch {
		case arguments.short:
			return nil, garbageArguments
		case procedure == mnt && string(path) != root:
			return words(noEntry), success
		case procedure == mnt:
			flavours := words(1, authSys)
			return append(append(words(ok), opaque(handle)...), flavours...), success
		case procedure == umnt || procedure == umntAll:
			return nil, success
		}
		return nil, procedureUnavailable
	}}
}

// A message between the kernel and the daemon that remembers its clients over a restart: version, command, status,
// number of the message, and the command's arguments (include/uapi/linux/nfsd/cld.h).
const (
	memoryCommand = 1 // offsets
	memoryStatus  = 2
	memoryAbout   = 8
	minMemory     = memoryAbout + 1 // bytes
	maxMemory     = 2048            // the longest has 1067

	commandVersion = 5 // the kernel asks for the version that is spoken
	memoryVersion  = 1 // the first version in which the server does not wait if there are no remembered clients
)

// remembered answers a message about clients with success, and that there were no clients. It returns nil for an
// invalid message.
func remembered(message []byte) []byte {
	if len(message) < minMemory || len(message) > maxMemory {
		return nil
	}
	reply := append([]byte(nil), message...)
	binary.NativeEndian.PutUint16(reply[memoryStatus:], 0)
	if reply[memoryCommand] == commandVersion {
		reply[memoryAbout] = memoryVersion
	}
	return reply
}
