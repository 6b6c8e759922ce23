package plan

import (
	"math"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// The filter of system calls (docs/spec/sandbox.md §7.4) allows every call that is not listed here.
// A listed call fails with EPERM, as if the user lacked a permission. The filter is written by hand
// in classic BPF: the launcher starts for every command, and a library's tables of all system calls
// would take too long.

// Offsets in struct seccomp_data.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArg0   = 16 // the low half of the first argument
)

// x32 marks the numbers of x86-64's third interface.
const x32 = 0x40000000

// never are the calls that no command needs and that sandbox escapes have used.
var never = []uint32{
	unix.SYS_PIDFD_GETFD,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_BPF, unix.SYS_USERFAULTFD, unix.SYS_PERF_EVENT_OPEN,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
}

// tracing are the calls of debuggers. They reach a process of the same user whose number is known, so they are denied unless PID and
// user namespaces are the command's own. The kernel asks the filter again about a call that a tracer has changed (Linux 4.8).
var tracing = []uint32{unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV}

// owners are the calls that change the owner of a file, with the index of the argument that has the new user. The next one has
// the group.
var owners = []struct{ nr, argument uint32 }{{unix.SYS_FCHOWN, 1}, {unix.SYS_FCHOWNAT, 2}}

// leases are the commands of fcntl for leases. With them, a command that can
// only read a file can block processes that open the file for writing, or work
// in that directory.
var leases = []uint32{unix.F_SETLEASE, fSetDeleg}

const fSetDeleg = 1024 + 16 // Linux 6.19

// nesting are the calls that change mounts or enter namespaces.
var nesting = []uint32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_SETNS, unix.SYS_CHROOT,
	unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG,
	unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, sysOpenTreeAttr,
}

const sysOpenTreeAttr = 467 // Linux 6.15, the same on both architectures

// offline are the system calls that reach a network. They are denied if the network is off and the
// command has no sockets of its own. recvfrom, sendmsg and recvmsg remain allowed for tools that
// use socket pairs.
var offline = []uint32{
	unix.SYS_CONNECT, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_BIND, unix.SYS_LISTEN,
	unix.SYS_GETPEERNAME, unix.SYS_GETSOCKNAME, unix.SYS_SHUTDOWN, unix.SYS_SENDTO,
	unix.SYS_SENDMMSG, unix.SYS_RECVMMSG, unix.SYS_GETSOCKOPT, unix.SYS_SETSOCKOPT,
}

// reaching are those offline calls that give a socket an address or a peer.
var reaching = []uint32{unix.SYS_CONNECT, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_BIND, unix.SYS_LISTEN}

// receiving are the calls that can receive descriptors over a Unix socket. Other calls that read
// from the socket drop descriptors.
var receiving = []uint32{unix.SYS_RECVMSG, unix.SYS_RECVMMSG}

// sharing are the calls that reach System V and POSIX message objects and processes of the host.
// They are denied if there are no IPC and PID namespaces.
var sharing = []uint32{
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	// The following calls act on another process by its number or descriptor.
	unix.SYS_KCMP, unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE,
}

// others are system calls that may act on another process, with the index of the argument that
// names the process. Without a PID namespace this argument must be 0, which means the calling
// process.
var others = []struct{ nr, argument uint32 }{
	{unix.SYS_PRLIMIT64, 0}, {unix.SYS_SETPRIORITY, 1}, {unix.SYS_SCHED_SETAFFINITY, 0}, {unix.SYS_SCHED_SETSCHEDULER, 0},
	{unix.SYS_SCHED_SETPARAM, 0}, {unix.SYS_SCHED_SETATTR, 0}, {unix.SYS_IOPRIO_SET, 1},
	{unix.SYS_MIGRATE_PAGES, 0}, {unix.SYS_MOVE_PAGES, 0},
}

// ioctlGroups are the groups (bits 8 to 15) of the ioctls that are permitted if the policy has
// read-only files. They are the groups for files that a command creates for itself (pipes, sockets,
// descriptors of events) or has for a terminal.
//
// A file system accepts ioctls on a file that is open only for reading, and some ioctls ignore
// whether the mount is read-only: with FS_IOC_REMOVE_ENCRYPTION_KEY, a command in a read-only
// sandbox locked the encrypted home directory of its user. The filter cannot see what kind of file
// a descriptor is, and a FUSE file system may give any number its own meaning. Therefore the filter
// does not list dangerous ioctls. It refuses every group that is not listed here.
var ioctlGroups = []uint32{
	'T',  // terminals, pipes and timers; FIOCLEX, FIONBIO, FIONREAD
	0x89, // sockets
	'I',  // inotify
	'R',  // /dev/random
	'!',  // notifications of seccomp
	0x8a, // epoll
	0xb7, // namespaces, by descriptor
	0xff, // processes, by descriptor
}

// fileIoctls are the permitted ioctls of files and directories: those that only read (linux/fs.h, fiemap.h,
// fscrypt.h, fsverity.h, msdos_fs.h, btrfs.h, xfs_fs.h), and those that need a descriptor that is open for writing.
var fileIoctls = []uint32{
	2,                                // FIGETBSZ
	unix.FS_IOC_GETFLAGS, 0x80046601, // and its 32-bit form
	0x80087601, 0x80047601, 0x80086603, // GETVERSION, its 32-bit form, that of ext4
	0xc020660b, 0x801c581f, // FIEMAP, FSGETXATTR
	0x81009431, 0x80111500, 0x80811501, // GETFSLABEL, GETFSUUID, GETFSSYSFSPATH
	0x400c6615, 0xc0096616, 0xc080661a, 0x8010661b, // GET_ENCRYPTION_POLICY, _POLICY_EX, _KEY_STATUS, _NONCE
	0xc0046686, 0xc0286687, // MEASURE_VERITY, READ_VERITY_METADATA
	0x80047210, 0x80047213, // the attributes and the volume of FAT
	0x80089419, 0x8400941f, 0x81f8943c, 0x800c581e, // flags of a subvolume, the file system and subvolume of Btrfs; direct I/O of XFS
	0xc0686611,             // PROCMAP_QUERY, of /proc/PID/maps
	0x40049409, 0x4020940d, // FICLONE, FICLONERANGE: need a descriptor that is open for writing
}

// attributes are the system calls that change a file without opening it. Landlock does not restrict
// them. They are denied if no file may be changed.
var attributes = []uint32{
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT,
	unix.SYS_UTIMENSAT, unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR,
	unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR,
	sysSetxattrat, sysRemovexattrat, sysFileSetattr,
}

const (
	sysSetxattrat    = 463 // Linux 6.13
	sysRemovexattrat = 466
	sysFileSetattr   = 469 // Linux 6.17
)

// Sockets selects which sockets of its own a command can use while its network
// is off.
type Sockets uint8

const (
	// SocketsFew is what Codex CLI permits: the command can create Unix sockets and socket pairs,
	// but most operations on them are denied.
	SocketsFew Sockets = iota
	// SocketsPairs permits every operation on socket pairs and on connected sockets. It is for a
	// command that shares the network of the host.
	SocketsPairs
	// SocketsLoopback adds TCP and UDP, for a command that has its own network namespace. The
	// filter does not check the targets of connections. So Unix sockets can only be pairs, because
	// a path can lead to a socket of the host.
	SocketsLoopback
	// SocketsOwn adds Unix sockets except datagram sockets. The launcher makes the connections of
	// all sockets, and connects only to Unix sockets of the same network namespace. It also makes
	// pairs of datagram sockets.
	SocketsOwn
)

// Rules select what a filter denies.
type Rules struct {
	Network    Network
	Sockets    Sockets // while the network is off
	Nesting    bool    // new namespaces and mounts are allowed
	Sharing    bool    // the IPC and PID namespaces are the host's
	Attributes bool    // files may only be changed after opening them for writing
	Files      bool    // not every file may be changed
	// Broker is the version of Landlock if the calls that change files are passed to the broker; otherwise 0.
	Broker int
	// Helper is true if the command is the helper of file requests, which changes no memory while a call waits.
	Helper bool
	// UnixSockets allows Unix sockets if the network is that of proxies. Connect makes the launcher
	// make the connections of that network.
	UnixSockets, Connect bool
	// Handed is true if the command inherits a Unix socket, over which a process outside can send
	// it other sockets. If the launcher does not make the connections, the command must not receive
	// any descriptor: a socket of another network would connect there.
	Handed bool
	// Tracing permits tracing: PID and user namespaces are the command's own.
	Tracing bool
	// Netlink permits sockets that ask the kernel about interfaces and routes: the network namespace is the command's own. To change
	// anything there needs a capability.
	Netlink bool
	// RootOnly is true if only the user and group 0 exist in the user namespace. A change of an owner to others, which the kernel would
	// refuse, then does nothing and succeeds, so that root can unpack an archive of others.
	RootOnly bool
}

// Asks reports whether the filter passes system calls to the launcher, which then makes them.
func (r Rules) Asks() bool {
	return r.Network == NetworkOff && r.Sockets == SocketsOwn || r.Network == NetworkProxy && r.Connect
}

// unchanged is the id with which a call leaves a user or group as it is: -1.
const unchanged = math.MaxUint32

const ioprioProcess = 1 // IOPRIO_WHO_PROCESS

// newNamespaces are the flags of clone and unshare that create namespaces. The flag of time
// namespaces is also a part of the signal number of clone, which cannot create them.
const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// Filter assembles the filter for the rules. It is never empty, because the calls in never are
// denied in every mode.
func (r Rules) Filter() []unix.SockFilter {
	a := newAssembler()
	arch := uint32(unix.AUDIT_ARCH_X86_64)
	if runtime.GOARCH == "arm64" {
		arch = unix.AUDIT_ARCH_AARCH64
	}
	a.load(offsetArch)
	a.op(unix.BPF_JMP|unix.BPF_K|unix.BPF_JEQ, arch, 1, 0)
	a.ret(unix.SECCOMP_RET_KILL_PROCESS)
	a.deny(never)
	if !r.Tracing {
		a.deny(tracing)
	}
	a.whenEqual(unix.SYS_IOCTL, offsetArg0+8, unix.TIOCSTI)
	a.whenEqual(unix.SYS_IOCTL, offsetArg0+8, unix.TIOCLINUX)
	for _, command := range leases {
		a.whenEqual(unix.SYS_FCNTL, offsetArg0+8, command)
	}
	// These calls may act on one process, but not on groups or users, because every user also has
	// processes outside of the sandbox.
	a.only(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS)
	a.only(unix.SYS_IOPRIO_SET, ioprioProcess)
	if !r.Nesting {
		a.deny(nesting)
		a.whenBits(unix.SYS_CLONE, offsetArg0, newNamespaces)
		a.whenBits(unix.SYS_UNSHARE, offsetArg0, newNamespaces|unix.CLONE_NEWTIME)
		// A filter cannot check the flags of clone3. Programs use clone if clone3 is missing.
		a.always(unix.SYS_CLONE3, actionNoSys)
	}
	if r.Sharing {
		a.deny(sharing)
		for _, o := range others {
			a.unlessZero(o.nr, offsetArg0+8*o.argument)
		}
	}
	if r.Attributes {
		a.deny(attributes)
		a.deny(oldAttributes)
	} else if r.RootOnly {
		for _, o := range slices.Concat(owners, oldOwners) {
			a.about(o.nr, func() {
				for argument := o.argument; argument <= o.argument+1; argument++ {
					a.load(offsetArg0 + 8*argument)
					a.amongOr(actionNothing, 0, unchanged)
				}
			})
		}
	}
	if r.Broker > 0 {
		a.broker(r.Broker, r.Helper)
	}
	if r.Files {
		a.about(unix.SYS_IOCTL, func() {
			a.load(offsetArg0 + 8)
			for _, request := range fileIoctls {
				a.on(unix.BPF_JEQ, request, actionAllow)
			}
			a.op(unix.BPF_ALU|unix.BPF_RSH|unix.BPF_K, 8, 0, 0)
			a.op(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0xff, 0, 0)
			a.among(ioctlGroups...)
		})
	}
	switch {
	case r.Asks():
		a.always(unix.SYS_CONNECT, actionAsk)
		a.always(unix.SYS_LANDLOCK_CREATE_RULESET, actionAsk)
		a.hidePeers()
	case r.Handed && r.Network != NetworkOn && !r.UnixSockets:
		a.deny(receiving)
	}
	switch r.Network {
	case NetworkOff:
		r.offline(a)
	case NetworkProxy:
		families := []uint32{unix.AF_INET, unix.AF_INET6}
		if r.UnixSockets {
			families = append(families, unix.AF_UNIX)
		}
		a.only(unix.SYS_SOCKET, r.netlink(a, families)...)
		a.only(unix.SYS_SOCKETPAIR, unix.AF_UNIX)
		a.streamsOnly(unix.SYS_SOCKETPAIR)
	}
	if r.Broker > 0 {
		r.brokerSockets(a)
	}
	return a.filter(r.Broker > 0)
}

// offline writes the checks that apply if the network is off.
func (r Rules) offline(a *assembler) {
	families := []uint32{unix.AF_UNIX}
	switch r.Sockets {
	case SocketsFew:
		a.deny(offline)
	case SocketsPairs:
		if r.Broker == 0 {
			a.deny(reaching)
		}
		// A message with an address can leave a connected socket, too.
		a.unlessZero(unix.SYS_SENDTO, offsetArg0+8*4)
		a.unlessZero(unix.SYS_SENDTO, offsetArg0+8*4+4)
	case SocketsLoopback:
		families = []uint32{unix.AF_INET, unix.AF_INET6}
	default:
		families = append(families, unix.AF_INET, unix.AF_INET6)
	}
	if r.Sockets >= SocketsLoopback {
		families = r.netlink(a, families)
	}
	a.only(unix.SYS_SOCKET, families...)
	a.only(unix.SYS_SOCKETPAIR, unix.AF_UNIX)
	if r.Sockets == SocketsOwn {
		a.askForPairs()
	}
	a.streamsOnly(unix.SYS_SOCKETPAIR)
	if r.Sockets >= SocketsLoopback {
		a.internetOnly(unix.AF_INET)
		a.internetOnly(unix.AF_INET6)
		a.unixStreamsOnly()
		return
	}
	a.streamsOnly(unix.SYS_SOCKET)
}

// netlink appends the family of netlink to families that may be used, if it may, and denies its protocols other than that
// for interfaces and routes.
func (r Rules) netlink(a *assembler, families []uint32) []uint32 {
	if !r.Netlink {
		return families
	}
	a.about(unix.SYS_SOCKET, func() {
		a.load(offsetArg0)
		a.when(unix.AF_NETLINK, func() {
			a.load(offsetArg0 + 8*2)
			a.among(unix.NETLINK_ROUTE)
		})
	})
	return append(families, unix.AF_NETLINK)
}

// hidePeers denies the options SO_PEERPIDFD and SO_PASSPIDFD, which give a descriptor of the
// process at the other end. That process would be the launcher, which makes the connections, or a
// process outside that has passed a socket to the command.
func (a *assembler) hidePeers() {
	for _, option := range []struct{ nr, name uint32 }{
		{unix.SYS_SETSOCKOPT, unix.SO_PASSPIDFD}, {unix.SYS_GETSOCKOPT, unix.SO_PEERPIDFD},
	} {
		a.about(option.nr, func() {
			a.load(offsetArg0 + 8)
			a.when(unix.SOL_SOCKET, func() {
				a.load(offsetArg0 + 8*2)
				a.on(unix.BPF_JEQ, option.name, actionNoOption)
			})
		})
	}
}

// askForPairs makes the launcher make pairs of datagram sockets.
func (a *assembler) askForPairs() {
	a.about(unix.SYS_SOCKETPAIR, func() {
		a.load(offsetArg0 + 8)
		a.op(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, sockKind, 0, 0)
		a.on(unix.BPF_JEQ, unix.SOCK_DGRAM, actionAsk)
	})
}

// unixStreamsOnly denies Unix sockets for datagrams, as streamsOnly does for
// sockets of every family.
func (a *assembler) unixStreamsOnly() {
	a.about(unix.SYS_SOCKET, func() {
		a.load(offsetArg0)
		a.when(unix.AF_UNIX, func() { a.kinds(unix.SOCK_STREAM, unix.SOCK_SEQPACKET) })
	})
}
