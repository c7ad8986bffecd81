#include "textflag.h"

// func copyAVX(dst, src *byte, n uintptr)
//
// Loads wherever they fall, stores on multiples of 32 bytes, 128 bytes a turn, as the C library's memcpy does below the
// size from which it writes past the cache. The first 32 and the last 128 bytes are read beforehand and stored at the
// end, over what the turns have left.
TEXT ·copyAVX(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), BX
	VMOVDQU (SI), Y8
	VMOVDQU -128(SI)(BX*1), Y9
	VMOVDQU -96(SI)(BX*1), Y10
	VMOVDQU -64(SI)(BX*1), Y11
	VMOVDQU -32(SI)(BX*1), Y12
	MOVQ DI, R8
	LEAQ (DI)(BX*1), R9
	LEAQ -128(R9), DX
	SUBQ DI, SI
	ADDQ $32, DI
	ANDQ $~31, DI
	CMPQ DI, DX
	JAE  ends

	PCALIGN $64
turn:
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
	JB   turn

ends:
	VMOVDQU Y8, (R8)
	VMOVDQU Y9, -128(R9)
	VMOVDQU Y10, -96(R9)
	VMOVDQU Y11, -64(R9)
	VMOVDQU Y12, -32(R9)
	VZEROUPPER
	RET
