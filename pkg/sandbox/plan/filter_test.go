package plan

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// call is a filter's view of a system call.
type call struct {
	nr, arch uint32
	args     [6]uint64
}

// interpret runs a filter as the kernel does, and fails if the kernel would not
// accept it.
func interpret(t *testing.T, filter []unix.SockFilter, c call) uint32 {
	t.Helper()
	var acc uint32
	for pc := 0; pc < len(filter); pc++ {
		f := filter[pc]
		jump := func(when bool) {
			if when {
				pc += int(f.Jt)
			} else {
				pc += int(f.Jf)
			}
		}
		switch f.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			word, ok := c.word(f.K)
			if !ok {
				t.Fatalf("load of %d", f.K)
			}
			acc = word
		case unix.BPF_JMP | unix.BPF_K | unix.BPF_JEQ:
			jump(acc == f.K)
		case unix.BPF_JMP | unix.BPF_K | unix.BPF_JGE:
			jump(acc >= f.K)
		case unix.BPF_JMP | unix.BPF_K | unix.BPF_JSET:
			jump(acc&f.K != 0)
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= f.K
		case unix.BPF_ALU | unix.BPF_RSH | unix.BPF_K:
			acc >>= f.K
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(f.K)
		case unix.BPF_RET | unix.BPF_K:
			return f.K
		default:
			t.Fatalf("instruction %#x", f.Code)
		}
	}
	t.Fatal("the filter has no end")
	return 0
}

// word returns the kernel's data at an offset; false: a filter must not load it.
func (c call) word(offset uint32) (uint32, bool) {
	switch at := offset - offsetArg0; {
	case offset == offsetNumber:
		return c.nr, true
	case offset == offsetArch:
		return c.arch, true
	case offset < offsetArg0 || int(at/8) >= len(c.args):
		return 0, false
	case at%8 == 0:
		return uint32(c.args[at/8]), true
	case at%8 == 4:
		return uint32(c.args[at/8] >> 32), true
	}
	return 0, false
}

func thisArch() uint32 {
	if runtime.GOARCH == "arm64" {
		return unix.AUDIT_ARCH_AARCH64
	}
	return unix.AUDIT_ARCH_X86_64
}

// everyRules yields all possible Rules.
func everyRules(f func(name string, r Rules)) {
	for network, name := range []string{"off", "on", "proxy"} {
		for bits := range 128 {
			for sockets := SocketsFew; sockets <= SocketsOwn && (name == "off" || sockets == SocketsFew); sockets++ {
				for _, connect := range []bool{false, true} {
					r := Rules{Network(network), sockets, bits&1 != 0, bits&2 != 0, bits&4 != 0, bits&16 != 0, 0, false, bits&8 != 0, connect, bits&32 != 0, bits&64 != 0, bits&64 != 0, bits&64 != 0}
					f(fmt.Sprintf("%s sockets=%d nesting=%v sharing=%v attributes=%v files=%v unix=%v connect=%v handed=%v own=%v",
						name, sockets, r.Nesting, r.Sharing, r.Attributes, r.Files, r.UnixSockets, connect, r.Handed, r.Tracing), r)
				}
			}
		}
	}
}

// Every number is compared with the lists of the spec. So the test detects a wrong answer for a
// neighbour of a listed call, or a number that a jump misses.
func TestTheFilterDeniesWhatIsListed(t *testing.T) {
	const highest = 600
	conditional := []uint32{unix.SYS_IOCTL, unix.SYS_CLONE, unix.SYS_UNSHARE, unix.SYS_CLONE3, unix.SYS_SOCKET, unix.SYS_SOCKETPAIR,
		unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET}
	for _, o := range slices.Concat(owners, oldOwners) {
		conditional = append(conditional, o.nr)
	}
	everyRules(func(name string, r Rules) {
		filter := r.Filter()
		if len(filter) > unix.BPF_MAXINSNS {
			t.Fatalf("%s: %d instructions", name, len(filter))
		}
		denied := slices.Clone(never)
		if !r.Tracing {
			denied = append(denied, tracing...)
		}
		if !r.Nesting {
			denied = append(denied, nesting...)
		}
		if r.Sharing {
			denied = append(denied, sharing...)
		}
		if r.Attributes {
			denied = append(append(denied, attributes...), oldAttributes...)
		}
		switch {
		case r.Network != NetworkOff:
		case r.Sockets == SocketsFew:
			denied = append(denied, offline...)
		case r.Sockets == SocketsPairs:
			denied = append(denied, reaching...)
		}
		if r.Handed && !r.UnixSockets && r.Network != NetworkOn && !r.Asks() {
			denied = append(denied, receiving...)
		}
		for nr := range uint32(highest) {
			if slices.Contains(conditional, nr) {
				continue
			}
			want := actionAllow
			if slices.Contains(denied, nr) {
				want = actionDeny
			}
			if (nr == unix.SYS_CONNECT || nr == unix.SYS_LANDLOCK_CREATE_RULESET) && r.Asks() {
				want = actionAsk
			}
			if got := interpret(t, filter, call{nr: nr, arch: thisArch()}); got != want {
				t.Errorf("%s: call %d: %#x, want %#x", name, nr, got, want)
			}
		}
	})
}

// The lists of md 7.2, by name.
func TestTheListsAreThoseOfTheSpec(t *testing.T) {
	for name, nr := range map[string]uint32{
		"ptrace": unix.SYS_PTRACE, "process_vm_readv": unix.SYS_PROCESS_VM_READV, "process_vm_writev": unix.SYS_PROCESS_VM_WRITEV,
		"io_uring_setup": unix.SYS_IO_URING_SETUP, "io_uring_enter": unix.SYS_IO_URING_ENTER, "io_uring_register": unix.SYS_IO_URING_REGISTER,
	} {
		if !slices.Contains(never, nr) && !slices.Contains(tracing, nr) {
			t.Errorf("%s is allowed", name)
		}
	}
	for name, nr := range map[string]uint32{
		"connect": unix.SYS_CONNECT, "accept": unix.SYS_ACCEPT, "accept4": unix.SYS_ACCEPT4, "bind": unix.SYS_BIND, "listen": unix.SYS_LISTEN,
		"getpeername": unix.SYS_GETPEERNAME, "getsockname": unix.SYS_GETSOCKNAME, "shutdown": unix.SYS_SHUTDOWN, "sendto": unix.SYS_SENDTO,
		"sendmmsg": unix.SYS_SENDMMSG, "recvmmsg": unix.SYS_RECVMMSG, "getsockopt": unix.SYS_GETSOCKOPT, "setsockopt": unix.SYS_SETSOCKOPT,
	} {
		if !slices.Contains(offline, nr) {
			t.Errorf("%s is allowed", name)
		}
	}
	for name, nr := range map[string]uint32{"recvfrom": unix.SYS_RECVFROM, "sendmsg": unix.SYS_SENDMSG, "recvmsg": unix.SYS_RECVMSG, "execve": unix.SYS_EXECVE, "kill": unix.SYS_KILL} {
		everyRules(func(mode string, r Rules) {
			if r.Handed && name == "recvmsg" {
				return
			}
			if got := interpret(t, r.Filter(), call{nr: nr, arch: thisArch()}); got != actionAllow {
				t.Errorf("%s: %s: got %#x, want %#x", mode, name, got, actionAllow)
			}
		})
	}
}

func TestTheFilterLooksAtArguments(t *testing.T) {
	const high = 1 << 32
	families := func(filter []unix.SockFilter, nr uint32, r Rules, allowed ...uint64) {
		t.Helper()
		for family := range uint64(64) {
			want := actionDeny
			if allowed == nil || slices.Contains(allowed, family) {
				want = actionAllow
			}
			// The family is an int: the upper half does not count.
			for _, f := range []uint64{family, family | high} {
				if got := interpret(t, filter, call{nr: nr, arch: thisArch(), args: [6]uint64{f, 1, 0}}); got != want {
					t.Errorf("call %d, network %d, family %#x: %#x, want %#x", nr, r.Network, f, got, want)
				}
			}
		}
	}
	everyRules(func(name string, r Rules) {
		filter := r.Filter() // once: it is interpreted a million times
		var netlink []uint64
		if r.Netlink {
			netlink = []uint64{unix.AF_NETLINK}
		}
		switch r.Network {
		case NetworkOff:
			families(filter, unix.SYS_SOCKET, r, [][]uint64{
				{unix.AF_UNIX}, {unix.AF_UNIX},
				append([]uint64{unix.AF_INET, unix.AF_INET6}, netlink...), append([]uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6}, netlink...),
			}[r.Sockets]...)
			families(filter, unix.SYS_SOCKETPAIR, r, unix.AF_UNIX)
		case NetworkProxy:
			allowed := append([]uint64{unix.AF_INET, unix.AF_INET6}, netlink...)
			if r.UnixSockets {
				allowed = append(allowed, unix.AF_UNIX)
			}
			families(filter, unix.SYS_SOCKET, r, allowed...)
			families(filter, unix.SYS_SOCKETPAIR, r, unix.AF_UNIX)
		default:
			families(filter, unix.SYS_SOCKET, r)
			families(filter, unix.SYS_SOCKETPAIR, r)
		}
		check := func(what string, c call, want uint32) {
			t.Helper()
			c.arch = thisArch()
			if got := interpret(t, filter, c); got != want {
				t.Errorf("%s: %s: %#x, want %#x", name, what, got, want)
			}
		}
		for _, request := range []uint64{unix.TIOCSTI, unix.TIOCLINUX} {
			check("ioctl", call{nr: unix.SYS_IOCTL, args: [6]uint64{0, request}}, actionDeny)
			check("ioctl with more bits", call{nr: unix.SYS_IOCTL, args: [6]uint64{0, request | high}}, actionDeny)
			check("ioctl with it elsewhere", call{nr: unix.SYS_IOCTL, args: [6]uint64{request, unix.TIOCGWINSZ, request}}, actionAllow)
		}
		for protocol := range uint64(32) {
			want := actionAllow
			if r.Network != NetworkOn && (!r.Netlink || protocol != unix.NETLINK_ROUTE || r.Network == NetworkOff && r.Sockets < SocketsLoopback) {
				want = actionDeny
			}
			check("netlink", call{nr: unix.SYS_SOCKET, args: [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, protocol}}, want)
			check("netlink, with more bits", call{nr: unix.SYS_SOCKET, args: [6]uint64{unix.AF_NETLINK | high, unix.SOCK_RAW, protocol | high}}, want)
		}
		for _, o := range slices.Concat(owners, oldOwners) {
			for _, ids := range [][2]uint64{{0, 0}, {0, unchanged}, {unchanged, 0}, {unchanged, unchanged}, {high, high}, {1, 0}, {0, 1}, {unchanged, 5}, {5, unchanged}} {
				want := actionAllow
				switch other := ids[0]%high != 0 && ids[0] != unchanged || ids[1]%high != 0 && ids[1] != unchanged; {
				case r.Attributes:
					want = actionDeny
				case r.RootOnly && other:
					want = actionNothing
				}
				c := call{nr: o.nr}
				c.args[o.argument], c.args[o.argument+1] = ids[0], ids[1]
				check(fmt.Sprintf("owner %v", ids), c, want)
			}
		}
		inside, new3 := actionDeny, actionNoSys
		if r.Nesting {
			inside, new3 = actionAllow, actionAllow
		}
		for bit := range 64 {
			want := actionAllow
			if bit < 32 && newNamespaces&(uint64(1)<<bit) != 0 {
				want = inside
			}
			check("clone", call{nr: unix.SYS_CLONE, args: [6]uint64{1 << bit}}, want)
			if 1<<bit == unix.CLONE_NEWTIME {
				want = inside
			}
			check("unshare", call{nr: unix.SYS_UNSHARE, args: [6]uint64{1 << bit}}, want)
		}
		for _, o := range others {
			want := actionAllow
			if r.Sharing {
				want = actionDeny
			}
			c := call{nr: o.nr}
			if o.nr == unix.SYS_IOPRIO_SET {
				c.args[0] = ioprioProcess
			}
			check("a call about itself", c, actionAllow)
			c.args[o.argument] = 7
			check("a call about another process", c, want)
		}
		for nr, process := range map[uint32]uint64{unix.SYS_SETPRIORITY: 0, unix.SYS_IOPRIO_SET: 1} {
			for which := range uint64(5) {
				want := actionDeny
				if which == process {
					want = actionAllow
				}
				check("a priority", call{nr: nr, args: [6]uint64{which}}, want)
				check("a priority, with more bits", call{nr: nr, args: [6]uint64{which | high}}, want)
			}
		}
		for command := range uint64(2048) {
			want := actionAllow
			if command == unix.F_SETLEASE || command == 1040 {
				want = actionDeny
			}
			check("fcntl", call{nr: unix.SYS_FCNTL, args: [6]uint64{3, command}}, want)
			check("fcntl with more bits", call{nr: unix.SYS_FCNTL, args: [6]uint64{3, command | high}}, want)
		}
		for kind := range uint64(8) {
			want := actionAllow
			if r.Network == NetworkOff && kind != unix.SOCK_STREAM && kind != unix.SOCK_SEQPACKET {
				want = actionDeny
			}
			for _, nr := range []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR} {
				want := want
				if r.Network == NetworkOff && r.Sockets == SocketsLoopback && nr == unix.SYS_SOCKET {
					want = actionDeny
				}
				if r.Network == NetworkOff && r.Sockets == SocketsOwn && kind == unix.SOCK_DGRAM && nr == unix.SYS_SOCKETPAIR {
					want = actionAsk
				}
				if r.Network == NetworkProxy {
					want = actionAllow
					if nr == unix.SYS_SOCKET && !r.UnixSockets || nr == unix.SYS_SOCKETPAIR && kind != unix.SOCK_STREAM && kind != unix.SOCK_SEQPACKET {
						want = actionDeny
					}
				}
				check("a Unix socket of a kind", call{nr: nr, args: [6]uint64{unix.AF_UNIX, kind | unix.SOCK_CLOEXEC}}, want)
			}
		}
		if r.Network == NetworkOff {
			checkOwnSockets(t, name, r)
		}
		check("fork", call{nr: unix.SYS_CLONE, args: [6]uint64{uint64(unix.SIGCHLD)}}, actionAllow)
		check("clone3", call{nr: unix.SYS_CLONE3}, new3)
	})
}

// TestIoctlsOfFiles: a file system accepts ioctls that change its state on a descriptor that is
// open for reading. If the policy has read-only files, only ioctls that are known to read, and the
// groups that files do not have, are permitted.
func TestIoctlsOfFiles(t *testing.T) {
	changes := map[string]uint32{
		"FS_IOC_SETFLAGS": unix.FS_IOC_SETFLAGS, "FS_IOC32_SETFLAGS": 0x40046602, "FS_IOC_FSSETXATTR": 0x401c5820, "FS_IOC_SETVERSION": 0x40087602,
		"FS_IOC_ENABLE_VERITY": 0x40806685, "FS_IOC_SET_ENCRYPTION_POLICY": 0x800c6613, "FS_IOC_ADD_ENCRYPTION_KEY": 0xc0506617,
		"FS_IOC_REMOVE_ENCRYPTION_KEY": 0xc0406618, "FS_IOC_REMOVE_ENCRYPTION_KEY_ALL_USERS": 0xc0406619, "FS_IOC_GET_ENCRYPTION_PWSALT": 0x40106614,
		"FS_IOC_SETFSLABEL": 0x41009432, "FIFREEZE": 0xc0045877, "FITRIM": 0xc0185879, "FIDEDUPERANGE": 0xc0189436,
		"BTRFS_IOC_SNAP_CREATE": 0x50009401, "BTRFS_IOC_SNAP_DESTROY": 0x5000940f, "BTRFS_IOC_SUBVOL_SETFLAGS": 0x4008941a,
		"F2FS_IOC_SET_PIN_FILE": 0x4004f50d, "FAT_IOCTL_SET_ATTRIBUTES": 0x40047211, "EXT4_IOC_MOVE_EXT": 0xc028660f,
		"CEPH_IOC_LAZYIO": 0x9704, "one of a FUSE file system": 0xc0406a01,
	}
	reads := map[string]uint32{
		"FS_IOC_GETFLAGS": unix.FS_IOC_GETFLAGS, "FS_IOC_FIEMAP": 0xc020660b, "FS_IOC_GET_ENCRYPTION_POLICY_EX": 0xc0096616,
		"FICLONE": unix.FICLONE, "FICLONERANGE": unix.FICLONERANGE, "TCGETS": unix.TCGETS, "TIOCGWINSZ": unix.TIOCGWINSZ,
		"FIONREAD": unix.TIOCINQ, "FIONBIO": 0x5421, "FIOCLEX": 0x5451, "TIOCGPTN": unix.TIOCGPTN, "SIOCGIFCONF": 0x8912,
		"NS_GET_USERNS": 0xb701, "RNDGETENTCNT": 0x80045200, "PIDFD_GET_NET_NAMESPACE": 0xff04,
	}
	everyRules(func(name string, r Rules) {
		filter := r.Filter()
		check := func(what string, request, want uint32) {
			for _, high := range []uint64{0, 1 << 32} {
				c := call{nr: unix.SYS_IOCTL, arch: thisArch(), args: [6]uint64{3, uint64(request) | high}}
				if got := interpret(t, filter, c); got != want {
					t.Errorf("%s: %s: got %#x, want %#x", name, what, got, want)
				}
			}
		}
		for what, request := range changes {
			want := actionAllow
			if r.Files {
				want = actionDeny
			}
			check(what, request, want)
		}
		for what, request := range reads {
			check(what, request, actionAllow)
		}
	})
}

// With so many calls the halves are too far away for the jump of a condition.
func TestTheSearchFindsEachCall(t *testing.T) {
	for _, count := range []int{1, 2, 3, fewCalls, fewCalls + 1, 100, 1000} {
		for _, answers := range []int{1, 2, count} {
			a := newAssembler()
			answer := func(i int) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(1+i%answers) }
			for i := range count {
				a.always(uint32(2*i), answer(i))
			}
			filter := a.filter(false)
			for i := range count {
				if got := interpret(t, filter, call{nr: uint32(2 * i)}); got != answer(i) {
					t.Errorf("call %d of %d with %d answers: %#x", i, count, answers, got)
				}
				if got := interpret(t, filter, call{nr: uint32(2*i + 1)}); got != actionAllow {
					t.Errorf("between call %d and the next of %d with %d answers: %#x", i, count, answers, got)
				}
			}
		}
	}
}

func TestOtherInterfacesOfTheKernel(t *testing.T) {
	everyRules(func(name string, r Rules) {
		for _, a := range []uint32{unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_AARCH64, 0} {
			want := uint32(unix.SECCOMP_RET_KILL_PROCESS)
			if a == thisArch() {
				want = actionAllow
			}
			if got := interpret(t, r.Filter(), call{nr: unix.SYS_READ, arch: a}); got != want {
				t.Errorf("%s: architecture %#x: %#x", name, a, got)
			}
		}
		if runtime.GOARCH != "amd64" {
			return
		}
		for _, nr := range []uint32{x32, x32 | unix.SYS_READ, x32 | 512, ^uint32(0)} {
			if got := interpret(t, r.Filter(), call{nr: nr, arch: thisArch()}); got != actionDeny {
				t.Errorf("%s: x32 %#x: %#x", name, nr, got)
			}
		}
		if got := interpret(t, r.Filter(), call{nr: x32 - 1, arch: thisArch()}); got != actionAllow {
			t.Errorf("%s: the number below x32: %#x", name, got)
		}
	})
}

// TestMadeConnectionsHideTheLauncher: if the launcher makes the connections, it is the process at
// their other end, and the command must get no descriptor of it.
func TestMadeConnectionsHideTheLauncher(t *testing.T) {
	everyRules(func(name string, r Rules) {
		if !r.Asks() {
			return
		}
		c := call{arch: thisArch(), nr: unix.SYS_GETSOCKOPT, args: [6]uint64{3, unix.SOL_SOCKET, unix.SO_PEERPIDFD}}
		if got := interpret(t, r.Filter(), c); got != actionNoOption {
			t.Errorf("%s: got %#x, want %#x", name, got, actionNoOption)
		}
	})
}

// checkOwnSockets checks what a command without a network can do with Internet
// sockets, and with messages that have an address.
func checkOwnSockets(t *testing.T, name string, r Rules) {
	t.Helper()
	filter := r.Filter()
	check := func(what string, c call, allowed bool) {
		t.Helper()
		c.arch = thisArch()
		want := actionDeny
		if allowed {
			want = actionAllow
		}
		if got := interpret(t, filter, c); got != want {
			t.Errorf("%s: %s: %#x, want %#x", name, what, got, want)
		}
	}
	for _, family := range []uint64{unix.AF_INET, unix.AF_INET6} {
		for kind := range uint64(16) {
			for _, protocol := range []uint64{0, 1, unix.IPPROTO_TCP, unix.IPPROTO_UDP, 58, unix.IPPROTO_SCTP, unix.IPPROTO_MPTCP} {
				allowed := r.Sockets >= SocketsLoopback && (kind == unix.SOCK_STREAM || kind == unix.SOCK_DGRAM) &&
					(protocol == 0 || protocol == unix.IPPROTO_TCP || protocol == unix.IPPROTO_UDP)
				c := call{nr: unix.SYS_SOCKET, args: [6]uint64{family, kind | unix.SOCK_NONBLOCK, protocol}}
				check(fmt.Sprintf("socket %d %d %d", family, kind, protocol), c, allowed)
			}
		}
	}
	for address, none := range map[uint64]bool{0: true, 1: false, 1 << 32: false} {
		c := call{nr: unix.SYS_SENDTO, args: [6]uint64{3, 4, 5, 0, address, 16}}
		check(fmt.Sprintf("sendto %#x", address), c, r.Sockets >= SocketsLoopback || r.Sockets == SocketsPairs && none)
	}
}

// TestTheFilterOfOwnSockets: a command with its own sockets cannot create a Unix socket for
// datagrams, because it could send from it to any path with sendmsg. The launcher makes pairs
// of such sockets, and connections.
func TestTheFilterOfOwnSockets(t *testing.T) {
	filter := Rules{Network: NetworkOff, Sockets: SocketsOwn}.Filter()
	const high, flags = 1 << 32, unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	for name, c := range map[string]struct {
		call
		want uint32
	}{
		"a datagram socket":                {call{nr: unix.SYS_SOCKET, args: [6]uint64{unix.AF_UNIX, unix.SOCK_DGRAM}}, actionDeny},
		"one with flags":                   {call{nr: unix.SYS_SOCKET, args: [6]uint64{unix.AF_UNIX, unix.SOCK_DGRAM | flags}}, actionDeny},
		"one with high bits":               {call{nr: unix.SYS_SOCKET, args: [6]uint64{unix.AF_UNIX | high, unix.SOCK_DGRAM | high}}, actionDeny},
		"a raw socket, which is one":       {call{nr: unix.SYS_SOCKET, args: [6]uint64{unix.AF_UNIX, unix.SOCK_RAW}}, actionDeny},
		"UDP":                              {call{nr: unix.SYS_SOCKET, args: [6]uint64{unix.AF_INET, unix.SOCK_DGRAM | flags}}, actionAllow},
		"a pair of datagrams":              {call{nr: unix.SYS_SOCKETPAIR, args: [6]uint64{unix.AF_UNIX, unix.SOCK_DGRAM}}, actionAsk},
		"one with flags and high bits":     {call{nr: unix.SYS_SOCKETPAIR, args: [6]uint64{unix.AF_UNIX | high, unix.SOCK_DGRAM | flags | high}}, actionAsk},
		"a raw pair, which is one":         {call{nr: unix.SYS_SOCKETPAIR, args: [6]uint64{unix.AF_UNIX, unix.SOCK_RAW}}, actionDeny},
		"a pair of another family":         {call{nr: unix.SYS_SOCKETPAIR, args: [6]uint64{unix.AF_INET, unix.SOCK_DGRAM}}, actionDeny},
		"connect":                          {call{nr: unix.SYS_CONNECT, args: [6]uint64{3, 4, 5}}, actionAsk},
		"sendmsg":                          {call{nr: unix.SYS_SENDMSG, args: [6]uint64{3, 4, 5}}, actionAllow},
		"sendmmsg":                         {call{nr: unix.SYS_SENDMMSG, args: [6]uint64{3, 4, 5, 6}}, actionAllow},
		"the other end's process":          {call{nr: unix.SYS_GETSOCKOPT, args: [6]uint64{3, unix.SOL_SOCKET, unix.SO_PEERPIDFD}}, actionNoOption},
		"it with high bits":                {call{nr: unix.SYS_GETSOCKOPT, args: [6]uint64{3, unix.SOL_SOCKET | high, unix.SO_PEERPIDFD | high}}, actionNoOption},
		"an option of another level":       {call{nr: unix.SYS_GETSOCKOPT, args: [6]uint64{3, unix.IPPROTO_IPV6, unix.SO_PEERPIDFD}}, actionAllow},
		"the processes of senders":         {call{nr: unix.SYS_SETSOCKOPT, args: [6]uint64{3, unix.SOL_SOCKET, unix.SO_PASSPIDFD}}, actionNoOption},
		"the users and numbers of senders": {call{nr: unix.SYS_SETSOCKOPT, args: [6]uint64{3, unix.SOL_SOCKET, unix.SO_PASSCRED}}, actionAllow},
	} {
		c.arch = thisArch()
		if got := interpret(t, filter, c.call); got != c.want {
			t.Errorf("%s: got %#x, want %#x", name, got, c.want)
		}
	}
}

// TestTheBrokerKnowsEveryCall: with the broker a call of a newer kernel is missing, because it may change files by a way that the filter does
// not stop. openat2 is missing before the version of Landlock that restricts truncation, but not for the helper of file requests.
func TestTheBrokerKnowsEveryCall(t *testing.T) {
	for _, tt := range []struct {
		rules Rules
		nr    uint32
		want  uint32
	}{
		{Rules{}, newest + 1, actionAllow},
		{Rules{Broker: 6}, newest + 1, actionNoSys},
		{Rules{Broker: 6}, 1 << 20, actionNoSys},
		{Rules{Broker: 6}, newest, actionNoSys},
		{Rules{Broker: 6}, newest - 1, actionAllow}, // file_getattr
		{Rules{Broker: 6}, unix.SYS_READ, actionAllow},
		{Rules{Broker: 6}, unix.SYS_OPENAT2, actionAsk},
		{Rules{Broker: 2}, unix.SYS_OPENAT2, actionNoSys},
		{Rules{Broker: 2, Helper: true}, unix.SYS_OPENAT2, actionAsk},
		{Rules{Broker: 2, Helper: true}, unix.SYS_KILL, actionAsk},
	} {
		if got := interpret(t, tt.rules.Filter(), call{nr: tt.nr, arch: thisArch()}); got != tt.want {
			t.Errorf("%+v, call %d: got %#x, want %#x", tt.rules, tt.nr, got, tt.want)
		}
	}
}
