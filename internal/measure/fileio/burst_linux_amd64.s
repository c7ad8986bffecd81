#include "textflag.h"

// func burst(c *calls) (done, res int, moved bool)
//
// A system call keeps all registers but AX, CX and R11.
TEXT ·burst(SB), NOSPLIT, $0-25
	MOVQ c+0(FP), BX
	MOVQ 8(BX), DI   // fd
	MOVQ 24(BX), R9  // size
	MOVQ 32(BX), R8  // offsets
	MOVQ 40(BX), R10 // step
	MOVQ 56(BX), R12 // calls left
	XORL R13, R13    // moved
	TESTQ R12, R12
	JZ   end

next:
	XORL R13, R13
	TESTQ R8, R8
	JZ   move
	MOVQ (R8), SI
	MOVQ 48(BX), DX
	MOVL $8, AX      // lseek
	SYSCALL
	TESTQ AX, AX
	JS   end
	ADDQ R10, R8

move:
	MOVL $1, R13
	MOVQ 0(BX), AX
	MOVQ 16(BX), SI
	MOVQ R9, DX
	SYSCALL
	CMPQ AX, R9
	JNE  end
	DECQ R12
	JNZ  next

end:
	MOVQ 56(BX), CX
	SUBQ R12, CX
	MOVQ CX, done+8(FP)
	MOVQ AX, res+16(FP)
	MOVB R13, moved+24(FP)
	RET
