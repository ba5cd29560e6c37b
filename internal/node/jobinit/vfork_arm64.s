#include "textflag.h"

// func vfork(number, first, second uintptr) (pid, errno uintptr)
//
// The child runs on this stack until it has become another program, and overwrites what is below the caller's frame. The
// return address is in a register that the kernel keeps.
TEXT ·vfork(SB), NOSPLIT|NOFRAME, $0-40
	MOVD	number+0(FP), R8
	MOVD	first+8(FP), R0
	MOVD	second+16(FP), R1
	MOVD	ZR, R2
	MOVD	ZR, R3
	MOVD	ZR, R4
	MOVD	ZR, R5
	SVC
	CMN	$4095, R0
	BCS	failed
	MOVD	R0, pid+24(FP)
	MOVD	ZR, errno+32(FP)
	RET

failed:
	MOVD	$-1, R4
	MOVD	R4, pid+24(FP)
	NEG	R0, R0
	MOVD	R0, errno+32(FP)
	RET
