#include "textflag.h"

// func copyString(dst, src *byte, n uintptr)
TEXT ·copyString(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	REP; MOVSB
	RET

// func copyAVX(dst, src *byte, n uintptr)
//
// Loads wherever they fall, stores on multiples of 32 bytes, 128 bytes a turn, as the C library's memcpy does below the
// size from which it writes past the cache. Like it, it goes downwards when both ends lie at about the same offset in
// their pages, where loads that run ahead of the stores would be taken for reads of what was just written. The first and
// the last 128 bytes are read beforehand and stored at the end, over what the turns have left.
TEXT ·copyAVX(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), BX
	VMOVDQU (SI), Y4
	VMOVDQU 32(SI), Y5
	VMOVDQU 64(SI), Y6
	VMOVDQU 96(SI), Y7
	VMOVDQU -128(SI)(BX*1), Y8
	VMOVDQU -96(SI)(BX*1), Y9
	VMOVDQU -64(SI)(BX*1), Y10
	VMOVDQU -32(SI)(BX*1), Y11
	MOVQ DI, R8          // where dst begins
	LEAQ (DI)(BX*1), R9  // and ends
	SUBQ DI, SI          // from an address in dst to the one in src
	TESTQ $(4096-256), SI
	JZ   down

	LEAQ -128(R9), DX
	ADDQ $32, DI
	ANDQ $~31, DI
	CMPQ DI, DX
	JAE  ends
	PCALIGN $64
up:
	VMOVDQU (SI)(DI*1), Y0
	VMOVDQU 32(SI)(DI*1), Y1
	VMOVDQU 64(SI)(DI*1), Y2
	VMOVDQU 96(SI)(DI*1), Y3
	VMOVDQA Y0, (DI)
	VMOVDQA Y1, 32(DI)
	VMOVDQA Y2, 64(DI)
	VMOVDQA Y3, 96(DI)
	ADDQ $128, DI
	CMPQ DI, DX
	JB   up
	JMP  ends

down:
	LEAQ 128(R8), DX
	MOVQ R9, DI
	ANDQ $~31, DI
	CMPQ DI, DX
	JBE  ends
	PCALIGN $64
turn:
	VMOVDQU -32(SI)(DI*1), Y0
	VMOVDQU -64(SI)(DI*1), Y1
	VMOVDQU -96(SI)(DI*1), Y2
	VMOVDQU -128(SI)(DI*1), Y3
	VMOVDQA Y0, -32(DI)
	VMOVDQA Y1, -64(DI)
	VMOVDQA Y2, -96(DI)
	VMOVDQA Y3, -128(DI)
	SUBQ $128, DI
	CMPQ DI, DX
	JA   turn

ends:
	VMOVDQU Y4, (R8)
	VMOVDQU Y5, 32(R8)
	VMOVDQU Y6, 64(R8)
	VMOVDQU Y7, 96(R8)
	VMOVDQU Y8, -128(R9)
	VMOVDQU Y9, -96(R9)
	VMOVDQU Y10, -64(R9)
	VMOVDQU Y11, -32(R9)
	VZEROUPPER
	RET
