#include "textflag.h"

// func vfork() (child uintptr, errno syscall.Errno)
//
// The address to return to is in a register, which the kernel keeps for parent and child.
TEXT ·vfork(SB), NOSPLIT|NOFRAME, $0-16
	MOVD $220, R8    // clone
	MOVD $0x4111, R0 // CLONE_VFORK|CLONE_VM|SIGCHLD
	MOVD ZR, R1      // on this stack
	MOVD ZR, R2
	MOVD ZR, R3
	MOVD ZR, R4
	SVC
	MOVD ZR, errno+8(FP)
	CMN  $4095, R0
	BCC  done
	NEG  R0, R0
	MOVD R0, errno+8(FP)
	MOVD ZR, R0
done:
	MOVD R0, child+0(FP)
	RET
