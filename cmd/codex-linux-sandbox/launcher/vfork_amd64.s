#include "textflag.h"

// func vfork() (child uintptr, errno syscall.Errno)
//
// The child overwrites what lies below the stack pointer, where the address to return
// to is while a function of Go's runs. So that is kept in a register, which the kernel
// keeps for each of the two.
TEXT ·vfork(SB), NOSPLIT|NOFRAME, $0-16
	MOVQ $56, AX     // clone
	MOVQ $0x4111, DI // CLONE_VFORK|CLONE_VM|SIGCHLD
	XORL SI, SI      // on this stack
	XORL DX, DX
	XORL R10, R10
	XORL R8, R8
	POPQ R12
	SYSCALL
	PUSHQ R12
	MOVQ $0, errno+8(FP)
	CMPQ AX, $-4095
	JCS  done
	NEGQ AX
	MOVQ AX, errno+8(FP)
	MOVQ $0, AX
done:
	MOVQ AX, child+0(FP)
	RET
