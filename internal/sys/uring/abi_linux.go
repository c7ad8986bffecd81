package uring

import "unsafe"

// The kernel's interface, from include/uapi/linux/io_uring.h. The three system calls have these numbers on every
// architecture but alpha.
const (
	sysSetup    = 425
	sysEnter    = 426
	sysRegister = 427

	offSQRing = 0
	offCQRing = 0x8000000
	offSQEs   = 0x10000000

	setupCQSize       = 1 << 3
	setupRDisabled    = 1 << 6
	setupCoopTaskrun  = 1 << 8
	setupSingleIssuer = 1 << 12
	setupDeferTaskrun = 1 << 13

	featSingleMmap = 1 << 0

	enterGetEvents = 1 << 0

	registerBuffers     = 0
	unregisterBuffers   = 1
	registerFiles       = 2
	unregisterFiles     = 3
	registerEnableRings = 12

	opReadFixed  = 4
	opWriteFixed = 5
	opRead       = 22
	opWrite      = 23

	sqeFixedFile = 1 << 0
)

type sqOffsets struct {
	head, tail, ringMask, ringEntries, flags, dropped, array, resv1 uint32
	userAddr                                                        uint64
}

type cqOffsets struct {
	head, tail, ringMask, ringEntries, overflow, cqes, flags, resv1 uint32
	userAddr                                                        uint64
}

type params struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features, wqFd uint32
	resv                                                                   [3]uint32
	sq                                                                     sqOffsets
	cq                                                                     cqOffsets
}

// sqe is an operation handed to the kernel.
type sqe struct {
	opcode, flags uint8
	ioprio        uint16
	fd            int32
	off, addr     uint64
	len           uint32
	rwFlags       uint32
	userData      uint64
	bufIndex      uint16
	personality   uint16
	spliceFd      int32
	pad           [2]uint64
}

// cqe is a completion.
type cqe struct {
	userData uint64
	res      int32
	flags    uint32
}

// A wrong size would corrupt memory: these do not compile then.
var (
	_ [64]byte  = [unsafe.Sizeof(sqe{})]byte{}
	_ [16]byte  = [unsafe.Sizeof(cqe{})]byte{}
	_ [120]byte = [unsafe.Sizeof(params{})]byte{}
)
