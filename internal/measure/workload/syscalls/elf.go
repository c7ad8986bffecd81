package syscalls

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
)

// The program to spawn is written here, byte by byte: an environment may have no other file than the agent, and the
// start of a Go program would take longer than everything that is measured.
//
// Called with no argument it exits with 0. Called with one argument it answers each byte from standard input with one
// byte on standard output, until its input ends.

var programAMD64 = bytes.Join([][]byte{
	{0x48, 0x83, 0x3c, 0x24, 0x02}, //        cmp qword [rsp], 2   argc
	{0x75, 0x28},                   //        jne exit
	{0x48, 0x8d, 0x74, 0x24, 0xf8}, //        lea rsi, [rsp-8]     kept by system calls, as is rdx
	{0xba, 0x01, 0x00, 0x00, 0x00}, //        mov edx, 1
	{0x31, 0xc0},                   // again: xor eax, eax         read(0, rsp-8, 1)
	{0x31, 0xff},                   //        xor edi, edi
	{0x0f, 0x05},                   //        syscall
	{0x48, 0x83, 0xf8, 0x01},       //        cmp rax, 1
	{0x75, 0x12},                   //        jne exit
	{0xb8, 0x01, 0x00, 0x00, 0x00}, //        mov eax, 1           write(1, rsp-8, 1)
	{0xbf, 0x01, 0x00, 0x00, 0x00}, //        mov edi, 1
	{0x0f, 0x05},                   //        syscall
	{0x48, 0x83, 0xf8, 0x01},       //        cmp rax, 1
	{0x74, 0xe2},                   //        je again
	{0x31, 0xff},                   // exit:  xor edi, edi         exit_group(0)
	{0xb8, 0xe7, 0x00, 0x00, 0x00}, //        mov eax, 231
	{0x0f, 0x05},                   //        syscall
}, nil)

var programARM64 = words(
	0xf94003e9, //        ldr x9, [sp]       argc
	0xf100093f, //        cmp x9, #2
	0x540001e1, //        b.ne exit
	0xd2800000, // again: mov x0, #0         read(0, sp-8, 1)
	0xd10023e1, //        sub x1, sp, #8
	0xd2800022, //        mov x2, #1
	0xd28007e8, //        mov x8, #63
	0xd4000001, //        svc #0
	0xf100041f, //        cmp x0, #1
	0x54000101, //        b.ne exit
	0xd2800020, //        mov x0, #1         write(1, sp-8, 1)
	0xd10023e1, //        sub x1, sp, #8
	0xd2800022, //        mov x2, #1
	0xd2800808, //        mov x8, #64
	0xd4000001, //        svc #0
	0xf100041f, //        cmp x0, #1
	0x54fffe60, //        b.eq again
	0xd2800000, // exit:  mov x0, #0         exit_group(0)
	0xd2800bc8, //        mov x8, #94
	0xd4000001, //        svc #0
)

var programRISCV64 = words(
	0x00013283, //        ld t0, 0(sp)       argc
	0x00200313, //        li t1, 2
	0x02629c63, //        bne t0, t1, exit
	0x00000513, // again: li a0, 0           read(0, sp-8, 1)
	0xff810593, //        addi a1, sp, -8
	0x00100613, //        li a2, 1
	0x03f00893, //        li a7, 63
	0x00000073, //        ecall
	0x00100293, //        li t0, 1
	0x00551e63, //        bne a0, t0, exit
	0x00100513, //        li a0, 1           write(1, sp-8, 1)
	0xff810593, //        addi a1, sp, -8
	0x00100613, //        li a2, 1
	0x04000893, //        li a7, 64
	0x00000073, //        ecall
	0xfc5508e3, //        beq a0, t0, again
	0x00000513, // exit:  li a0, 0           exit_group(0)
	0x05e00893, //        li a7, 94
	0x00000073, //        ecall
)

func words(w ...uint32) []byte {
	var b []byte
	for _, v := range w {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

// ELF64 layout and constants, from elf.h.
const (
	headerSize  = 64
	segmentSize = 56
	loadAddress = 0x400000
	// segmentAlign is the largest page size of the platforms, so that the segment can be mapped with every page size.
	segmentAlign = 0x10000

	typeExec       = 2
	machineAMD64   = 62
	machineARM64   = 183
	machineRISCV64 = 243
	segmentLoad    = 1
	segmentStack   = 0x6474e551 // PT_GNU_STACK: without it old kernels make all memory executable
	flagX          = 1
	flagW          = 2
	flagR          = 4
)

// program returns the executable for a GOARCH.
func program(arch string) ([]byte, error) {
	var code []byte
	var machine uint16
	switch arch {
	case "amd64":
		code, machine = programAMD64, machineAMD64
	case "arm64":
		code, machine = programARM64, machineARM64
	case "riscv64":
		code, machine = programRISCV64, machineRISCV64
	default:
		return nil, fmt.Errorf("make a program to spawn: there is none for %s", arch)
	}
	const codeAt = headerSize + 2*segmentSize
	size := uint64(codeAt + len(code))
	le := binary.LittleEndian
	b := []byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0} // 64 bits, little endian, version 1, System V
	b = le.AppendUint16(b, typeExec)
	b = le.AppendUint16(b, machine)
	b = le.AppendUint32(b, 1)                  // version
	b = le.AppendUint64(b, loadAddress+codeAt) // entry
	b = le.AppendUint64(b, headerSize)         // program headers
	b = le.AppendUint64(b, 0)                  // no sections
	b = le.AppendUint32(b, 0)                  // flags
	for _, v := range []uint16{headerSize, segmentSize, 2, 0, 0, 0} {
		b = le.AppendUint16(b, v)
	}
	b = appendSegment(b, segmentLoad, flagR|flagX, loadAddress, size, segmentAlign)
	b = appendSegment(b, segmentStack, flagR|flagW, 0, 0, 16)
	return append(b, code...), nil
}

func appendSegment(b []byte, kind, flags uint32, address, size, align uint64) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, kind)
	b = le.AppendUint32(b, flags)
	// offset, virtual, physical, in file, in memory
	for _, v := range []uint64{0, address, address, size, size, align} {
		b = le.AppendUint64(b, v)
	}
	return b
}

// hostProgram returns the executable for this process's own architecture.
func hostProgram() ([]byte, error) { return program(runtime.GOARCH) }
