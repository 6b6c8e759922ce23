package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() {
	attacks["ptrace"] = func([]string) {
		call("PTRACE_TRACEME", unix.SYS_PTRACE, unix.PTRACE_TRACEME)
	}
	attacks["process_vm"] = func([]string) {
		b := make([]byte, 8)
		v := unix.Iovec{Base: &b[0], Len: 8}
		call("process_vm_readv", unix.SYS_PROCESS_VM_READV, uintptr(unix.Getpid()), pointer(&v), 1, pointer(&v), 1, 0)
		call("process_vm_writev", unix.SYS_PROCESS_VM_WRITEV, uintptr(unix.Getpid()), pointer(&v), 1, pointer(&v), 1, 0)
	}
	attacks["pidfd_getfd"] = func([]string) {
		// A server inside can get a pidfd of the launcher, because the launcher connects to it.
		if self, err := unix.PidfdOpen(unix.Getpid(), 0); err == nil {
			call("pidfd_getfd", unix.SYS_PIDFD_GETFD, uintptr(self), 0, 0)
		}
	}
	attacks["io_uring"] = func([]string) {
		call("io_uring_setup", unix.SYS_IO_URING_SETUP, 1, pointer(&[120]byte{}))
		call("io_uring_enter", unix.SYS_IO_URING_ENTER, ^uintptr(0))
		call("io_uring_register", unix.SYS_IO_URING_REGISTER, ^uintptr(0))
	}
	attacks["userfaultfd"] = func([]string) { call("userfaultfd", unix.SYS_USERFAULTFD, 1) }
	attacks["bpf"] = func([]string) {
		call("bpf map", unix.SYS_BPF, unix.BPF_MAP_CREATE, pointer(&[128]byte{0: 2, 4: 4, 8: 8, 12: 1}), 128)
	}
	attacks["perf"] = func([]string) {
		attr := &unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
		call("perf_event_open", unix.SYS_PERF_EVENT_OPEN, pointer(attr), 0, ^uintptr(0), ^uintptr(0), 0)
	}
	attacks["keys"] = func([]string) {
		call("keyctl", unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, ^uintptr(2), 0)
		call("add_key", unix.SYS_ADD_KEY, text("user"), text("escape"), text("x"), 1, ^uintptr(0))
		call("request_key", unix.SYS_REQUEST_KEY, text("user"), text("escape"), 0, 0)
	}
	attacks["kexec"] = func([]string) {
		call("kexec_load", unix.SYS_KEXEC_LOAD, 0, 1<<20, 0, 0)
		call("kexec_file_load", unix.SYS_KEXEC_FILE_LOAD, ^uintptr(0), ^uintptr(0), 0, 0, 0)
	}
	attacks["modules"] = func([]string) {
		call("init_module", unix.SYS_INIT_MODULE, pointer(&[8]byte{}), 8, text(""))
		call("finit_module", unix.SYS_FINIT_MODULE, ^uintptr(0), text(""), 0)
		call("delete_module", unix.SYS_DELETE_MODULE, text("no_such_module"), 0)
	}
	attacks["handles"] = func(args []string) {
		handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, args[0], 0)
		broken("name_to_handle_at", err)
		dir, err := unix.Open(filepath.Dir(args[0]), unix.O_RDONLY|unix.O_DIRECTORY, 0)
		broken("open", err)
		fd, err := unix.OpenByHandleAt(dir, handle, unix.O_RDWR)
		try("open_by_handle_at", err)
		_ = unix.Close(fd)
	}
	attacks["mounts"] = func(args []string) {
		call("mount", unix.SYS_MOUNT, text("none"), text(args[0]+"/none"), text("tmpfs"), 0, 0)
		call("remount", unix.SYS_MOUNT, text("none"), text(args[0]), 0, unix.MS_REMOUNT|unix.MS_BIND, 0)
		call("umount2", unix.SYS_UMOUNT2, text(args[0]+"/none"), unix.MNT_DETACH)
		call("pivot_root", unix.SYS_PIVOT_ROOT, text(args[0]+"/none"), text(args[0]+"/none"))
		call("move_mount", unix.SYS_MOVE_MOUNT, ^uintptr(0), text(""), ^uintptr(0), text(""), 0)
		call("fsopen", unix.SYS_FSOPEN, text("no-such-fs"), 0)
		call("fsconfig", unix.SYS_FSCONFIG, ^uintptr(0), unix.FSCONFIG_CMD_CREATE, 0, 0, 0)
		call("fsmount", unix.SYS_FSMOUNT, ^uintptr(0), 0, 0)
		call("fspick", unix.SYS_FSPICK, at, text(args[0]+"/none"), 0)
		call("mount_setattr", unix.SYS_MOUNT_SETATTR, at, text(args[0]+"/none"), 0, pointer(&unix.MountAttr{Attr_clr: 1}), 32)
		call("open_tree", unix.SYS_OPEN_TREE, at, text(args[0]+"/none"), 1)
	}
	attacks["open_tree"] = func(args []string) {
		call("open_tree", unix.SYS_OPEN_TREE, at, text(args[0]), 0)
		call("open_tree_attr", 467, at, text(args[0]), 0, 0, 0)
		call("chroot", unix.SYS_CHROOT, text(args[0]+"/none"))
		call("setns", unix.SYS_SETNS, ^uintptr(0), 0)
	}
	attacks["chroot"] = func(args []string) { call("chroot", unix.SYS_CHROOT, text(args[0])) }
	attacks["unshare"] = func([]string) {
		for name, flag := range spaces {
			call("unshare "+name, unix.SYS_UNSHARE, flag)
		}
	}
	attacks["unshare user"] = func([]string) {
		call("unshare user", unix.SYS_UNSHARE, unix.CLONE_NEWUSER)
	}
	attacks["clone"] = func([]string) {
		for name, flag := range spaces {
			if flag != unix.CLONE_NEWTIME {
				forked("clone "+name, unix.SYS_CLONE, flag|uintptr(unix.SIGCHLD))
				forked("clone user and "+name, unix.SYS_CLONE, flag|unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD))
			}
		}
		forked("clone with high bits", unix.SYS_CLONE, 1<<40|unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD))
	}
	attacks["clone3"] = func([]string) {
		for _, flags := range []uint64{unix.CLONE_NEWUSER, unix.CLONE_NEWUSER | unix.CLONE_NEWNS, 0} {
			forked("clone3", unix.SYS_CLONE3, pointer(&[11]uint64{0: flags, 4: uint64(unix.SIGCHLD)}), 88)
		}
	}
	attacks["setns"] = func(args []string) {
		for _, name := range []string{"user", "mnt", "pid", "net", "ipc", "uts"} {
			fd, err := unix.Open("/proc/"+args[0]+"/ns/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				held("open the namespace "+name, err)
				continue
			}
			call("setns "+name, unix.SYS_SETNS, uintptr(fd), 0)
		}
	}
	attacks["sockets"] = func([]string) {
		for _, family := range []uintptr{unix.AF_INET, unix.AF_INET6, unix.AF_VSOCK, unix.AF_ALG, unix.AF_TIPC, unix.AF_RDS, unix.AF_SMC, unix.AF_QIPCRTR, unix.AF_CAN, unix.AF_APPLETALK, unix.AF_X25} {
			if family != unix.AF_INET && family != unix.AF_INET6 { // the command has sockets of these two in its own network
				call(fmt.Sprint("socket of family ", family), unix.SYS_SOCKET, family, unix.SOCK_DGRAM, 0)
			}
			call(fmt.Sprint("socketpair of family ", family), unix.SYS_SOCKETPAIR, family, unix.SOCK_DGRAM, 0, pointer(&[2]int32{}))
		}
		for _, protocol := range []uintptr{unix.NETLINK_SOCK_DIAG, unix.NETLINK_KOBJECT_UEVENT, unix.NETLINK_GENERIC} {
			call(fmt.Sprint("netlink of protocol ", protocol), unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, protocol)
		}
		call("socket with high bits", unix.SYS_SOCKET, 1<<32|unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG)
		call("Multipath TCP", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
		call("socket with high bits of unix", unix.SYS_SOCKET, unix.AF_UNIX<<32|unix.AF_NETLINK, unix.SOCK_RAW, 1<<32|unix.NETLINK_SOCK_DIAG)
	}
	attacks["privileged sockets"] = func([]string) {
		for _, family := range []uintptr{unix.AF_PACKET, unix.AF_KEY, unix.AF_XDP, unix.AF_BLUETOOTH} {
			call(fmt.Sprint("socket of family ", family), unix.SYS_SOCKET, family, unix.SOCK_RAW, 0)
		}
		call("raw socket", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
	}
	attacks["abstract"] = func(args []string) {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		broken("socket", err)
		try("connect to an abstract socket", unix.Connect(fd, &unix.SockaddrUnix{Name: "@" + args[0]}))
		fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		broken("socket", err)
		try("connect to a socket in the file system", unix.Connect(fd, &unix.SockaddrUnix{Name: args[1]}))
	}
	attacks["memory"] = func([]string) {
		for name, flags := range map[string]int{"/dev/mem": unix.O_RDONLY, "/dev/kmsg": unix.O_WRONLY, "/proc/kcore": unix.O_RDONLY, "/proc/kmsg": unix.O_RDONLY, "/dev/port": unix.O_RDWR} {
			try("open "+name, open(name, flags))
		}
	}
	attacks["mknod"] = func(args []string) {
		for what, dev := range map[string]uint64{"null": unix.Mkdev(1, 3), "mem": unix.Mkdev(1, 1), "disk": unix.Mkdev(8, 0)} {
			try("mknod "+what, unix.Mknod(args[0]+"/"+what, unix.S_IFCHR|0o666, int(dev)))
		}
		try("mknod in /dev", unix.Mknod("/dev/escape-node", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 1))))
		_ = unix.Unlink("/dev/escape-node")
	}
	attacks["host"] = func([]string) {
		var name unix.Utsname
		broken("uname", unix.Uname(&name))
		call("sethostname", unix.SYS_SETHOSTNAME, pointer(&name.Nodename), uintptr(len(unix.ByteSliceToString(name.Nodename[:]))))
		call("setdomainname", unix.SYS_SETDOMAINNAME, pointer(&name.Domainname), uintptr(len(unix.ByteSliceToString(name.Domainname[:]))))
		call("swapoff", unix.SYS_SWAPOFF, text("/none"))
		call("reboot", unix.SYS_REBOOT, 0, 0, 0)
		call("settimeofday", unix.SYS_SETTIMEOFDAY, 0, pointer(&[2]int32{1 << 30}))
		call("acct", unix.SYS_ACCT, text("/none"))
		call("syslog", unix.SYS_SYSLOG, 8, 0, 0)
	}
	attacks["adjust the clock"] = func([]string) {
		var now unix.Timex
		_, err := unix.Adjtimex(&now)
		broken("adjtimex", err)
		now.Modes = unix.ADJ_FREQUENCY
		_, err = unix.Adjtimex(&now)
		try("adjtimex", err)
	}
	attacks["writables"] = func(args []string) { writables(args) }
	attacks["settings"] = func([]string) {
		for _, name := range []string{"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/kernel/modprobe", "/proc/sys/vm/overcommit_memory", "/proc/sysrq-trigger"} {
			try("open "+name, open(name, unix.O_WRONLY))
		}
	}
	attacks["sysfs"] = func([]string) {
		for _, pattern := range []string{"/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/power/state", "/sys/module/*/parameters/*", "/sys/devices/system/cpu/cpu*/online", "/sys/fs/cgroup/*/release_agent", "/sys/fs/cgroup/*/cgroup.procs", "/sys/fs/cgroup/*/tasks", "/sys/fs/cgroup/cgroup.procs"} {
			names, _ := filepath.Glob(pattern)
			for _, name := range names[:min(len(names), 20)] {
				try("open "+name, open(name, unix.O_WRONLY))
			}
		}
		try("mkdir in a cgroup", unix.Mkdir("/sys/fs/cgroup/pids/escape", 0o755))
		_ = unix.Rmdir("/sys/fs/cgroup/pids/escape")
	}
	attacks["sysv"] = func(args []string) {
		var shm, sem, msg int
		_, _ = fmt.Sscan(args[0], &shm)
		_, _ = fmt.Sscan(args[1], &sem)
		_, _ = fmt.Sscan(args[2], &msg)
		op := &[1]struct{ num, op, flg int16 }{{0, 1, 0o4000}}
		for what, r := range map[string][]uintptr{
			"shmat": {unix.SYS_SHMAT, uintptr(shm)}, "shmctl": {unix.SYS_SHMCTL, uintptr(shm), 2, pointer(&[256]byte{})},
			"semop":       {unix.SYS_SEMOP, uintptr(sem), pointer(op), 1},
			"semtimedop":  {unix.SYS_SEMTIMEDOP, uintptr(sem), pointer(op), 1},
			"semctl":      {unix.SYS_SEMCTL, uintptr(sem), 0, 12},
			"msgsnd":      {unix.SYS_MSGSND, uintptr(msg), pointer(&[2]uint64{1, 1}), 8, 0o4000},
			"msgctl stat": {unix.SYS_MSGCTL, uintptr(msg), 2, pointer(&[256]byte{})},
		} {
			_, errno := raw(r[0], r[1:]...)
			if errno == 0 {
				breach(what)
			} else {
				held(what, errno)
			}
		}
	}
	attacks["mqueue"] = func(args []string) {
		_, errno := raw(unix.SYS_MQ_OPEN, text(args[0]), unix.O_RDWR, 0, 0)
		if errno == 0 {
			breach("mq_open")
		} else {
			held("mq_open", errno)
		}
		if _, errno = raw(unix.SYS_MQ_UNLINK, text(args[0])); errno == 0 {
			breach("mq_unlink")
		} else {
			held("mq_unlink", errno)
		}
	}
	attacks["tty"] = func([]string) {
		c := byte('x')
		for _, fd := range []int{0, 1, 2} {
			call("TIOCSTI", unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, pointer(&c))
			call("TIOCSTI with high bits", unix.SYS_IOCTL, uintptr(fd), 1<<32|unix.TIOCSTI, pointer(&c))
			call("TIOCLINUX", unix.SYS_IOCTL, uintptr(fd), unix.TIOCLINUX, pointer(&c))
		}
		if fd, err := unix.Open("/dev/tty", unix.O_RDWR, 0); err == nil {
			call("TIOCSTI on /dev/tty", unix.SYS_IOCTL, uintptr(fd), unix.TIOCSTI, pointer(&c))
		}
	}
	attacks["terminal"] = func(args []string) {
		try("open somebody else's terminal", open(args[0], unix.O_RDWR|unix.O_NOCTTY))
		try("read somebody else's terminal", open(args[0], unix.O_RDONLY|unix.O_NOCTTY))
	}
	attacks["setuid"] = func([]string) {
		// Execute a setuid copy of this program that belongs to root.
		if os.Geteuid() != os.Getuid() {
			breach("we run as another user")
			return
		}
		held("setuid", unix.EPERM)
	}
	attacks["capabilities"] = func([]string) {
		const other = 12345
		_, errno := raw(unix.SYS_SETUID, other)
		report("setuid", errno)
		status, err := os.ReadFile("/proc/self/status")
		broken("status", err)
		for line := range strings.Lines(string(status)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
			switch {
			case strings.HasPrefix(name, "Cap") && name != "CapBnd" && strings.Trim(value, "0") != "":
				breach(line)
			case name == "NoNewPrivs" && value != "1", name == "Seccomp" && value != "2":
				breach(line)
			}
		}
		call("setgroups", unix.SYS_SETGROUPS, 0, 0)
		call("capset", unix.SYS_CAPSET, pointer(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}), pointer(&[2]unix.CapUserData{{Permitted: 1 << 21, Effective: 1 << 21}}))
	}
}

var spaces = map[string]uintptr{
	"user": unix.CLONE_NEWUSER, "mnt": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "net": unix.CLONE_NEWNET,
	"ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP, "time": unix.CLONE_NEWTIME,
}

// ours are files outside of the granted paths that every user may write, and that belong to no
// other user.
var ours = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/shm", "/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/console",
	// A process that writes to these files gets notifications of its own.
	"/proc/pressure/cpu", "/proc/pressure/io", "/proc/pressure/memory", "/proc/pressure/irq"}

// writables opens every file in /proc, /sys and /dev for writing, except those of processes. It
// writes no data.
func writables(skip []string) {
	skip = append(skip, ours...)
	for _, top := range []string{"/proc", "/sys/kernel", "/sys/module", "/sys/power", "/sys/fs", "/sys/firmware", "/dev"} {
		seen := 0
		_ = filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
			base := strings.TrimPrefix(path, "/proc/")
			switch {
			case err != nil:
				return nil
			case path != base && (base[0] >= '0' && base[0] <= '9' || base == "self" || base == "thread-self"):
				return filepath.SkipDir
			}
			for _, s := range skip {
				if path == s && d.IsDir() {
					return filepath.SkipDir
				} else if path == s {
					return nil
				}
			}
			info, err := d.Info()
			if d.IsDir() || err != nil || d.Type()&os.ModeSymlink != 0 || info.Mode().Perm()&0o222 == 0 {
				return nil
			}
			if path != base && info.Mode()&os.ModeDevice != 0 {
				return nil // a container covers a file of /proc with /dev/null
			}
			if seen++; seen > 20000 {
				return filepath.SkipAll
			}
			if err := open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY); err == nil {
				breach("open " + path)
			}
			return nil
		})
	}
	held("writables", unix.EROFS)
}

func init() {
	// Take resources that the kernel counts per user, which other processes of the user need as well.
	attacks["watchers"] = func(args []string) {
		most, err := strconv.Atoi(args[0])
		broken("arguments", err)
		for n := range most {
			if _, err := unix.InotifyInit1(unix.IN_CLOEXEC); err != nil {
				held(fmt.Sprintf("inotify instance %d", n), err)
				return
			}
		}
		breach(fmt.Sprintf("%d inotify instances", most))
	}
}
