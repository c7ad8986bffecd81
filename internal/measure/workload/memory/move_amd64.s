#include "textflag.h"

// func copyString(dst, src *byte, n uintptr, source bool)
//
// One string move of all but the first bytes, so that the destination, or with source the source, begins it on a multiple
// of 64. The first 64 bytes are read beforehand and stored at the end.
TEXT ·copyString(SB), NOSPLIT, $0-25
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVBLZX source+24(FP), AX
	MOVOU (SI), X0
	MOVOU 16(SI), X1
	MOVOU 32(SI), X2
	MOVOU 48(SI), X3
	MOVQ DI, R8
	MOVQ DI, BX
	TESTL AX, AX
	CMOVQNE SI, BX
	NEGQ BX
	ANDQ $63, BX         // bytes up to the next multiple
	ADDQ BX, DI
	ADDQ BX, SI
	SUBQ BX, CX
	REP; MOVSB
	MOVOU X0, (R8)
	MOVOU X1, 16(R8)
	MOVOU X2, 32(R8)
	MOVOU X3, 48(R8)
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

// The two loops below write past the cache, some pages at a time: 128 bytes of each page in a turn. So the reads of several
// pages are under way at once, and each line is written whole. dst begins on a multiple of 64.

#define AHEAD(page) \
	PREFETCHT0 page*4096+128(SI) \
	PREFETCHT0 page*4096+192(SI)
#define LOAD(page, a, b, c, d) \
	VMOVDQU page*4096(SI), a \
	VMOVDQU page*4096+32(SI), b \
	VMOVDQU page*4096+64(SI), c \
	VMOVDQU page*4096+96(SI), d
#define PASS(page, a, b, c, d) \
	VMOVNTDQ a, page*4096(DI) \
	VMOVNTDQ b, page*4096+32(DI) \
	VMOVNTDQ c, page*4096+64(DI) \
	VMOVNTDQ d, page*4096+96(DI)

// func copyTwoPages(dst, src *byte, pairs uintptr)
TEXT ·copyTwoPages(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ pairs+16(FP), BX
	TESTQ BX, BX
	JZ   done2
pair:
	MOVL $(4096/128), CX
	PCALIGN $64
turn2:
	AHEAD(0)
	AHEAD(1)
	LOAD(0, Y0, Y1, Y2, Y3)
	LOAD(1, Y4, Y5, Y6, Y7)
	ADDQ $128, SI
	PASS(0, Y0, Y1, Y2, Y3)
	PASS(1, Y4, Y5, Y6, Y7)
	ADDQ $128, DI
	DECL CX
	JNZ  turn2
	ADDQ $4096, SI
	ADDQ $4096, DI
	DECQ BX
	JNZ  pair
	SFENCE
done2:
	VZEROUPPER
	RET

// func copyFourPages(dst, src *byte, fours uintptr)
TEXT ·copyFourPages(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ fours+16(FP), BX
	TESTQ BX, BX
	JZ   done4
four:
	MOVL $(4096/128), CX
	PCALIGN $64
turn4:
	AHEAD(0)
	AHEAD(1)
	AHEAD(2)
	AHEAD(3)
	LOAD(0, Y0, Y1, Y2, Y3)
	LOAD(1, Y4, Y5, Y6, Y7)
	LOAD(2, Y8, Y9, Y10, Y11)
	LOAD(3, Y12, Y13, Y14, Y15)
	ADDQ $128, SI
	PASS(0, Y0, Y1, Y2, Y3)
	PASS(1, Y4, Y5, Y6, Y7)
	PASS(2, Y8, Y9, Y10, Y11)
	PASS(3, Y12, Y13, Y14, Y15)
	ADDQ $128, DI
	DECL CX
	JNZ  turn4
	ADDQ $(3*4096), SI
	ADDQ $(3*4096), DI
	DECQ BX
	JNZ  four
	SFENCE
done4:
	VZEROUPPER
	RET

// func cpuid(leaf, sub uint32) (eax, ebx, ecx, edx uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-24
	MOVL leaf+0(FP), AX
	MOVL sub+4(FP), CX
	CPUID
	MOVL AX, eax+8(FP)
	MOVL BX, ebx+12(FP)
	MOVL CX, ecx+16(FP)
	MOVL DX, edx+20(FP)
	RET
