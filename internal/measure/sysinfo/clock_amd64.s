#include "textflag.h"

// Between registers: newer cores fold the addition of a constant into the renaming, where it costs nothing.
#define LINK \
	ADDQ BX, AX; \
	XORQ DX, AX

#define LINKS8 LINK; LINK; LINK; LINK; LINK; LINK; LINK; LINK

// func countCycles(rounds int64)
TEXT ·countCycles(SB), NOSPLIT, $0-8
	MOVQ rounds+0(FP), CX
	MOVQ $0x9E3779B97F4A7C15, BX
	MOVQ $0x5851F42D4C957F2D, DX
	XORQ AX, AX

round:
	LINKS8
	LINKS8
	LINKS8
	LINKS8
	SUBQ $1, CX
	JNZ  round
	RET
