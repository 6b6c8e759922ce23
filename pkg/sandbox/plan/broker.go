package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"codex.internal/pkg/sandbox/permissions"
	"golang.org/x/sys/unix"
)

// The functions of this file convert a plan for the backend broker: Landlock grants no change of any file of a writable root, and
// a broker outside makes each permitted change (cmd/codex-linux-sandbox/broker).

// BrokerRefusal returns an error that names the part of a plan that the broker cannot enforce, or nil.
func (plan *Plan) BrokerRefusal() error {
	switch {
	case plan.Network == NetworkProxy:
		return errNoProxies
	case plan.NoProc:
		return errors.New("it cannot leave /proc empty")
	case plan.Root == RootWritable:
		return errors.New("it cannot restrict paths below a writable /")
	}
	for _, m := range plan.Mounts {
		if (m.Kind == EmptyDir || m.Kind == EmptyFile) && !m.Placeholder && plan.inWritable(m.Target) {
			return fmt.Errorf("it cannot hide %s, which is below a writable path", m.Target)
		}
	}
	return nil
}

// BrokerGrants returns what Landlock grants to the command, besides the files that it inherits: to read what the plan lets be read, and
// to use the devices.
func (plan *Plan) BrokerGrants(view permissions.View) ([]Grant, error) {
	return plan.grants(view, landlockReads)
}

// BrokerDomain returns what the Landlock domain of the broker itself grants. Without the right to write there, its descriptors
// could not be written to.
func (plan *Plan) BrokerDomain() []Grant {
	var grants []Grant
	for _, m := range plan.Mounts {
		if m.Kind != BindWritable || m.Pin {
			continue
		}
		rights := uint64(WallDirectory)
		if m.File {
			rights &= landlockFiles
		}
		grants = append(grants, Grant{m.Target, rights, true})
	}
	for _, name := range slices.Concat(Devices, []string{"pts", "ptmx"}) {
		grants = append(grants, Grant{"/dev/" + name, WallFiles, true})
	}
	if plan.Writable() {
		grants = append(grants, Grant{"/dev/shm", WallDirectory, true})
	}
	return grants
}

// DescribeBroker describes what the broker changes, for people.
func (plan *Plan) DescribeBroker() string {
	var b strings.Builder
	b.WriteString("changes of files, each of which the launcher makes for the command (20 to 35 µs more for each call):\n")
	for _, m := range plan.Mounts {
		if m.Kind != Link && !m.Pin {
			b.WriteString("  " + describe(m) + "\n")
		}
	}
	for _, n := range plan.Undo {
		b.WriteString("  " + n.Path + "  must not be created\n")
	}
	return b.String()
}

// brokered are the calls that the filter passes to the broker, whatever their arguments.
var brokered = []uint32{
	unix.SYS_OPENAT2, // its flags are in memory
	unix.SYS_MKDIRAT, unix.SYS_MKNODAT, unix.SYS_UNLINKAT, unix.SYS_SYMLINKAT, unix.SYS_LINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2,
	unix.SYS_TRUNCATE, unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR,
	unix.SYS_UMASK,
}

// signals are the calls that send a signal. They are passed to the broker before version 6 of Landlock.
var signals = []uint32{
	unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO,
}

// owning are the commands of fcntl and ioctl that make the kernel send signals to a process.
var owning = map[uint32][]uint32{
	unix.SYS_FCNTL: {unix.F_SETOWN, unix.F_SETOWN_EX, unix.F_SETSIG},
	unix.SYS_IOCTL: {fioSetOwn, unix.SIOCSPGRP},
}

const fioSetOwn = 0x8901 // FIOSETOWN

// opens are the calls that open a file, and the offset of the argument with the flags. They are passed to the broker if the flags
// may change a file.
type openCall struct{ nr, flags uint32 }

// changing are the flags of an open that may change a file.
const changing = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC | unix.O_TMPFILE&^unix.O_DIRECTORY

// absent are calls that change files in a way that the broker does not know. Programs do without them.
var absent = []uint32{sysSetxattrat, sysRemovexattrat, sysFileSetattr, unix.SYS_LANDLOCK_CREATE_RULESET}

// BrokerCalls returns the numbers of all calls that a filter may pass to the broker.
func BrokerCalls() []uint32 {
	all := slices.Concat(brokered, olderBrokered, signals, []uint32{unix.SYS_SOCKET, unix.SYS_BIND, unix.SYS_CONNECT})
	for _, o := range opens {
		all = append(all, o.nr)
	}
	return all
}

// newest is the newest call of Linux 6.18, the same on both architectures. A later one may change files in a way that the broker does
// not know, so with the broker it is missing.
const newest = sysFileSetattr

// broker writes the checks that pass calls to the broker.
func (a *assembler) broker(abi int, helper bool) {
	for _, nr := range slices.Concat(brokered, olderBrokered) {
		action := uint32(actionAsk)
		if nr == unix.SYS_OPENAT2 && abi < abiTruncate && !helper {
			action = actionNoSys
		}
		a.always(nr, action)
	}
	if abi < LandlockABI {
		for _, nr := range signals {
			a.always(nr, actionAsk)
		}
		for nr, commands := range owning {
			for _, command := range commands {
				a.whenEqual(nr, offsetArg0+8, command)
			}
		}
	}
	for _, o := range opens {
		a.about(o.nr, func() {
			a.load(o.flags)
			a.on(unix.BPF_JSET, unix.O_PATH, actionAllow)
			a.on(unix.BPF_JSET, changing, actionAsk)
		})
	}
	for _, nr := range absent {
		a.always(nr, actionNoSys)
	}
	// The broker cannot look into a process that is not dumpable. The call succeeds and does nothing.
	a.about(unix.SYS_PRCTL, func() {
		a.load(offsetArg0)
		a.on(unix.BPF_JEQ, unix.PR_SET_DUMPABLE, unix.SECCOMP_RET_ERRNO)
	})
}

// brokerSockets passes the Unix sockets of the command to the broker, which drops its copies of connected ones. If the network is
// off, it also makes the connections.
func (r Rules) brokerSockets(a *assembler) {
	if r.Network != NetworkOn && r.Sockets < SocketsPairs {
		return
	}
	a.about(unix.SYS_SOCKET, func() {
		a.load(offsetArg0)
		a.on(unix.BPF_JEQ, unix.AF_UNIX, actionAsk)
	})
	a.always(unix.SYS_BIND, actionAsk)
	a.always(unix.SYS_CONNECT, actionAsk)
	if r.Network != NetworkOn {
		a.hidePeers()
	}
}

// abiTruncate is the first version of Landlock that restricts truncation.
const abiTruncate = 3
