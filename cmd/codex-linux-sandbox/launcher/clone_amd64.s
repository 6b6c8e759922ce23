#include "textflag.h"

// func cloneOnto(top unsafe.Pointer, c *processes) (child uintptr, errno syscall.Errno)
TEXT ·cloneOnto(SB), NOSPLIT|NOFRAME, $0-32
	MOVQ top+0(FP), SI
	ANDQ $~15, SI
	MOVQ c+8(FP), R12
	MOVQ $56, AX    // clone
	MOVQ $0x111, DI // CLONE_VM|SIGCHLD
	XORL DX, DX
	XORL R10, R10
	XORL R8, R8
	SYSCALL
	TESTQ AX, AX
	JEQ child
	MOVQ $0, errno+24(FP)
	CMPQ AX, $-4095
	JCS  done
	NEGQ AX
	MOVQ AX, errno+24(FP)
	MOVQ $0, AX
done:
	MOVQ AX, child+16(FP)
	RET
child:
	PUSHQ R12 // the argument
	CALL ·runCommand(SB)
	UNDEF
