package launcher

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The init of a sandbox that is made ahead (prepare.go) is forked before the launcher knows what
// the command is. It reads the rest of its program from memory that it shares with the launcher.
// The launcher appends steps only behind one with which the init waits for it, so that the init reads
// no step that is half written.

const (
	// arenaSize bounds what is shared: the steps, the paths they name, and the command
	// with its environment. One with a larger environment gets a sandbox that is made
	// when it is needed.
	arenaSize = 3 << 20
	// arenaAlign fits all that the kernel reads.
	arenaAlign = 16
)

// arena is memory that a launcher shares with an init.
type arena struct {
	mem  []byte
	used int
	full bool // something had no room: what was appended since is not complete
}

func newArena() (*arena, error) {
	mem, err := unix.Mmap(-1, 0, arenaSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("make memory for the sandbox: %w", err)
	}
	return &arena{mem: mem}, nil
}

// room returns memory for n values, which are zero. If there is no room it returns other
// memory, and the arena is full.
func room[T any](a *arena, n int) []T {
	var zero T
	begin, size := (a.used+arenaAlign-1)&^(arenaAlign-1), n*int(unsafe.Sizeof(zero))
	if n == 0 || begin+size > len(a.mem) {
		a.full = a.full || n > 0
		return make([]T, n)
	}
	a.used = begin + size
	return unsafe.Slice((*T)(unsafe.Pointer(&a.mem[begin])), n)
}

// share returns a copy of the elements of a slice. What they point to must be in the
// arena too, or be kept elsewhere, and read by the launcher alone.
func share[T any](a *arena, s []T) []T {
	copied := room[T](a, len(s))
	copy(copied, s)
	return copied
}

// program returns a program of at most so many steps and results.
func (a *arena) program(steps, registers int) *program {
	s := &room[sequence](a, 1)[0]
	s.steps, s.regs = room[step](a, steps)[:0], room[uintptr](a, registers)[:0]
	return &program{sequence: s, shared: a}
}
