#include "textflag.h"

// func cloneOnto(top unsafe.Pointer, c *processes) (child uintptr, errno syscall.Errno)
TEXT ·cloneOnto(SB), NOSPLIT|NOFRAME, $0-32
	MOVD top+0(FP), R1
	AND  $~15, R1
	MOVD c+8(FP), R9
	MOVD $220, R8   // clone
	MOVD $0x111, R0 // CLONE_VM|SIGCHLD
	MOVD ZR, R2
	MOVD ZR, R3
	MOVD ZR, R4
	SVC
	CBZ  R0, child
	MOVD ZR, errno+24(FP)
	CMN  $4095, R0
	BCC  done
	NEG  R0, R0
	MOVD R0, errno+24(FP)
	MOVD ZR, R0
done:
	MOVD R0, child+16(FP)
	RET
child:
	SUB  $16, RSP
	MOVD R9, 8(RSP) // the argument
	CALL ·runCommand(SB)
	UNDEF
