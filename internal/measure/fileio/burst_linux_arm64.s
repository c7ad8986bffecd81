#include "textflag.h"

// func burst(c *calls) (done, res int, moved bool)
//
// A system call keeps all registers but R0.
TEXT ·burst(SB), NOSPLIT, $0-25
	MOVD c+0(FP), R9
	MOVD 8(R9), R10  // fd
	MOVD 24(R9), R11 // size
	MOVD 32(R9), R12 // offsets
	MOVD 40(R9), R13 // step
	MOVD 56(R9), R14 // calls left
	MOVD $0, R15     // moved
	CBZ  R14, end

next:
	MOVD $0, R15
	CBZ  R12, move
	MOVD R10, R0
	MOVD (R12), R1
	MOVD 48(R9), R2
	MOVD $62, R8     // lseek
	SVC
	CMP  $0, R0
	BLT  end
	ADD  R13, R12

move:
	MOVD $1, R15
	MOVD R10, R0
	MOVD 16(R9), R1
	MOVD R11, R2
	MOVD 0(R9), R8
	SVC
	CMP  R11, R0
	BNE  end
	SUBS $1, R14
	BNE  next

end:
	MOVD 56(R9), R3
	SUB  R14, R3, R3
	MOVD R3, done+8(FP)
	MOVD R0, res+16(FP)
	MOVB R15, moved+24(FP)
	RET
