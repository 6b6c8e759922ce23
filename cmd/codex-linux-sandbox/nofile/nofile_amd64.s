#include "textflag.h"

// func prlimit(limit *[2]uint64) uintptr
TEXT ·prlimit(SB), NOSPLIT, $0-16
	MOVQ $302, AX // prlimit64
	XORL DI, DI   // of this process
	MOVQ $7, SI   // RLIMIT_NOFILE
	XORL DX, DX   // sets nothing
	MOVQ limit+0(FP), R10
	SYSCALL
	MOVQ AX, ret+8(FP)
	RET
