#include "textflag.h"

// func vfork(number, first, second uintptr) (pid, errno uintptr)
//
// The child runs on this stack until it has become another program, and overwrites what is below the caller's frame. So
// the return address stays in a register that the kernel keeps.
TEXT ·vfork(SB), NOSPLIT|NOFRAME, $0-40
	MOVQ	number+0(FP), AX
	MOVQ	first+8(FP), DI
	MOVQ	second+16(FP), SI
	XORL	DX, DX
	XORL	R10, R10
	XORL	R8, R8
	XORL	R9, R9
	POPQ	R12
	SYSCALL
	PUSHQ	R12
	CMPQ	AX, $-4095
	JCC	failed
	MOVQ	AX, pid+24(FP)
	MOVQ	$0, errno+32(FP)
	RET

failed:
	NEGQ	AX
	MOVQ	$-1, pid+24(FP)
	MOVQ	AX, errno+32(FP)
	RET
