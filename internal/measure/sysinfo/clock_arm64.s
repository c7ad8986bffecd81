#include "textflag.h"

#define LINK \
	ADD R1, R0; \
	EOR R2, R0

#define LINKS8 LINK; LINK; LINK; LINK; LINK; LINK; LINK; LINK

// func countCycles(rounds int64)
TEXT ·countCycles(SB), NOSPLIT, $0-8
	MOVD rounds+0(FP), R3
	MOVD $0x9E3779B97F4A7C15, R1
	MOVD $0x5851F42D4C957F2D, R2
	MOVD $0, R0

round:
	LINKS8
	LINKS8
	LINKS8
	LINKS8
	SUBS $1, R3
	BNE  round
	RET
