package nfsd

import "encoding/binary"

// portMapper is the service that the kernel registers each of its own with (RFC 1833), and without which it does not
// start the lock manager that belongs to version 3. Nobody looks anything up: clients are told the ports. So it says
// yes and forgets.
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
// no list of who has mounted what, which was never reliable and which nobody reads.
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

// A message between the kernel and what remembers its clients over a restart, of whichever version: version, command,
// status, number of the message, and what the command is about (include/uapi/linux/nfsd/cld.h).
const (
	memoryCommand = 1 // offsets
	memoryStatus  = 2
	memoryAbout   = 8
	minMemory     = memoryAbout + 1 // bytes
	maxMemory     = 2048            // the longest has 1067

	commandVersion = 5 // the kernel asks for the version that is spoken
	memoryVersion  = 1 // the first whose server waits for nobody when nobody is remembered
)

// remembered answers a message about clients by saying that all is well, and that there were none. It returns nil for
// what is no message.
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
