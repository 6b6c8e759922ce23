package plan

import (
	"maps"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// assembler writes BPF: the checks of each system call, and a binary search for them. Without the
// search, each system call would go through the whole list. So would all system calls when the
// filter is installed, because the kernel then determines which are always allowed: that takes 0.14
// ms of each start instead of 0.07.
type assembler struct {
	code  []unix.SockFilter            // the current output
	calls map[uint32][]unix.SockFilter // the checks of a system call; calls without checks are allowed
}

func newAssembler() *assembler { return &assembler{calls: make(map[uint32][]unix.SockFilter)} }

func (a *assembler) op(code uint16, k uint32, jt, jf uint8) {
	a.code = append(a.code, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

func (a *assembler) load(offset uint32) { a.op(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset, 0, 0) }

func (a *assembler) ret(action uint32) { a.op(unix.BPF_RET|unix.BPF_K, action, 0, 0) }

// about appends instructions to the checks of a system call. f writes them. They load the data that
// they check, and either return or continue with the next check.
func (a *assembler) about(nr uint32, f func()) {
	outer := a.code
	a.code = a.calls[nr]
	f()
	a.calls[nr], a.code = a.code, outer
}

// filter appends the search for the number of the call to the instructions, and returns all
// instructions. With known, calls that are newer than the newest known one are missing.
func (a *assembler) filter(known bool) []unix.SockFilter {
	a.load(offsetNumber)
	if runtime.GOARCH == "amd64" {
		a.on(unix.BPF_JGE, x32, actionDeny)
	}
	if known {
		a.on(unix.BPF_JGE, newest+1, actionNoSys)
	}
	a.search(slices.Sorted(maps.Keys(a.calls)))
	return a.code
}

// fewCalls is how many calls with the same answer are compared one after the other. For more calls
// a binary search is faster.
const fewCalls = 6

// search writes the search for the loaded number in a sorted list of numbers, and the checks of
// each number.
func (a *assembler) search(numbers []uint32) {
	asked := a.calls[numbers[0]]
	same := func(nr uint32) bool { return slices.Equal(a.calls[nr], asked) }
	if len(numbers) <= fewCalls && !slices.ContainsFunc(numbers, func(nr uint32) bool { return !same(nr) }) {
		for i, nr := range numbers {
			a.op(unix.BPF_JMP|unix.BPF_K|unix.BPF_JEQ, nr, uint8(len(numbers)-i), 0)
		}
		a.ret(actionAllow)
		a.code = append(a.code, asked...)
		if last := asked[len(asked)-1]; len(asked) > 1 || last.Code != unix.BPF_RET|unix.BPF_K {
			a.ret(actionAllow)
		}
		return
	}
	half := len(numbers) / 2
	at := len(a.code)
	a.op(unix.BPF_JMP|unix.BPF_K|unix.BPF_JGE, numbers[half], 0, 0)
	a.search(numbers[:half])
	if far := len(a.code) - at - 1; far <= math.MaxUint8 {
		a.code[at].Jt = uint8(far)
	} else {
		a.code[at].Jf = 1
		a.code = slices.Insert(a.code, at+1, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(far)})
	}
	a.search(numbers[half:])
}

// Actions of the filter.
const (
	actionDeny  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	actionNoSys = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	// actionNoOption is the error of a kernel that does not have a socket option.
	actionNoOption = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOPROTOOPT)
	// actionNothing makes a call succeed without doing anything.
	actionNothing = uint32(unix.SECCOMP_RET_ERRNO)
	actionAsk     = uint32(unix.SECCOMP_RET_USER_NOTIF)
	actionAllow   = uint32(unix.SECCOMP_RET_ALLOW)
)

// on returns action if comparing the loaded word with k succeeds.
func (a *assembler) on(compare uint16, k, action uint32) {
	a.op(unix.BPF_JMP|unix.BPF_K|compare, k, 0, 1)
	a.ret(action)
}

// always gives a system call the same answer for all arguments.
func (a *assembler) always(nr, action uint32) { a.about(nr, func() { a.ret(action) }) }

// deny denies the calls of a list.
func (a *assembler) deny(numbers []uint32) {
	for _, nr := range numbers {
		a.always(nr, actionDeny)
	}
}

// when runs the checks that f writes if the loaded word is k. The checks load their own data. After
// when, no data is loaded.
func (a *assembler) when(k uint32, f func()) {
	at := len(a.code)
	a.op(unix.BPF_JMP|unix.BPF_K|unix.BPF_JEQ, k, 0, 0)
	f()
	a.code[at].Jf = uint8(len(a.code) - at - 1)
}

// among denies a call unless the loaded word is one of the values.
func (a *assembler) among(values ...uint32) { a.amongOr(actionDeny, values...) }

// amongOr returns an action unless the loaded word is one of the values.
func (a *assembler) amongOr(action uint32, values ...uint32) {
	n := uint8(len(values))
	for i, v := range values {
		a.op(unix.BPF_JMP|unix.BPF_K|unix.BPF_JEQ, v, n-uint8(i), 0)
	}
	a.ret(action)
}

// only denies a call unless the low half of its first argument is one of the
// values.
func (a *assembler) only(nr uint32, values ...uint32) {
	a.about(nr, func() {
		a.load(offsetArg0)
		a.among(values...)
	})
}

// sockKind are the bits of a socket's type, without SOCK_CLOEXEC and the like.
const sockKind = 0xf

// kinds denies a call unless its second argument is one of the kinds of
// sockets.
func (a *assembler) kinds(values ...uint32) {
	a.load(offsetArg0 + 8)
	a.op(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, sockKind, 0, 0)
	a.among(values...)
}

// streamsOnly denies datagram sockets for a call, because datagrams can be sent to any named socket
// of the host.
func (a *assembler) streamsOnly(nr uint32) {
	a.about(nr, func() { a.kinds(unix.SOCK_STREAM, unix.SOCK_SEQPACKET) })
}

// internetOnly denies Internet sockets that are not TCP or UDP. The kernel has other protocols,
// which few programs use and which have had many errors.
func (a *assembler) internetOnly(family uint32) {
	a.about(unix.SYS_SOCKET, func() {
		a.load(offsetArg0)
		a.when(family, func() {
			a.kinds(unix.SOCK_STREAM, unix.SOCK_DGRAM)
			a.load(offsetArg0 + 16)
			a.among(0, unix.IPPROTO_TCP, unix.IPPROTO_UDP)
		})
	})
}

// whenBits denies a call when its argument at offset has one of the bits.
func (a *assembler) whenBits(nr, offset, bits uint32) {
	a.whenArgument(unix.BPF_JSET, nr, offset, bits)
}

// unlessZero denies a call when its argument at offset is not 0.
func (a *assembler) unlessZero(nr, offset uint32) { a.whenBits(nr, offset, ^uint32(0)) }

func (a *assembler) whenEqual(nr, offset, value uint32) {
	a.whenArgument(unix.BPF_JEQ, nr, offset, value)
}

// whenArgument denies a call if comparing its argument at offset with k succeeds.
func (a *assembler) whenArgument(compare uint16, nr, offset, k uint32) {
	a.about(nr, func() {
		a.load(offset)
		a.on(compare, k, actionDeny)
	})
}
