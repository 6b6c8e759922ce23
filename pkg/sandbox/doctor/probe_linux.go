package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// outcome is what a child tells, as one line of JSON.
type outcome struct {
	// Step is what failed, and Errno how; empty if nothing did.
	Step  string        `json:"step,omitempty"`
	Errno syscall.Errno `json:"errno,omitempty"`
	// Text is what was seen, or how a step failed that was no system call.
	Text string `json:"text,omitempty"`
	// Number is what was asked for, such as a version.
	Number int `json:"number,omitempty"`
	// Did lists what a confined child could do.
	Did []string `json:"did,omitempty"`
}

func (o outcome) failed() bool { return o.Step != "" }

// String says what failed in one line.
func (o outcome) String() string {
	switch {
	case o.Errno != 0:
		return fmt.Sprintf("%s: %v (os error %d)", o.Step, o.Errno, int(o.Errno))
	case o.Text != "":
		return o.Step + ": " + o.Text
	default:
		return o.Step
	}
}

// probes are what children do. They may change themselves as they like.
var probes = map[string]func(args []string) outcome{
	"nothing": func([]string) outcome { return outcome{} },
	"wait":    probeWait,
	"mounts":  probeMounts, "mountAPI": probeMountAPI, "proc": probeProc, "loopback": probeLoopback,
	"seccomp": probeSeccomp, "landlock": probeLandlock, "terminal": probeTerminal, "inotify": probeInotify,
	"confined": probeConfined,
}

// Main is the life of a child: the arguments are those behind Arg. It returns
// the exit code.
func Main(args []string) int {
	// What restricts a thread must not let the probe go on in another.
	runtime.LockOSThread()
	time.AfterFunc(probeTime, func() { os.Exit(1) })
	if len(args) == 0 || probes[args[0]] == nil {
		fmt.Fprintln(os.Stderr, "codex: no such probe; they are for codex doctor")
		return 1
	}
	text, err := json.Marshal(probes[args[0]](args[1:]))
	if err == nil {
		_, err = os.Stdout.Write(append(text, '\n'))
	}
	if err != nil {
		return 1
	}
	return 0
}

// failure makes an outcome of an error.
func failure(step string, err error) outcome {
	o := outcome{Step: step, Text: err.Error()}
	errors.As(err, &o.Errno)
	return o
}

// probeWait ends with its input, or is killed before.
func probeWait([]string) outcome {
	_, _ = io.Copy(io.Discard, os.Stdin)
	return outcome{}
}

// private makes all mounts here independent of the host's.
func private() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }

// probeMounts mounts something, in a mount namespace of its own.
func probeMounts([]string) outcome {
	if err := private(); err != nil {
		return failure("make mounts private", err)
	}
	if err := unix.Mount("tmpfs", "/proc", "tmpfs", 0, "size=1m"); err != nil {
		return failure("mount a tmpfs", err)
	}
	return outcome{}
}

// probeMountAPI makes what the namespaces backend makes views of: a file
// system, and a read-only copy of the mounts.
func probeMountAPI([]string) outcome {
	if err := private(); err != nil {
		return failure("make mounts private", err)
	}
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return failure("fsopen", err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return failure("fsconfig", err)
	}
	if _, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0); err != nil {
		return failure("fsmount", err)
	}
	at, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return failure("open_tree", err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID}
	if err := unix.MountSetattr(at, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return failure("mount_setattr", err)
	}
	return outcome{}
}

// probeProc mounts a fresh /proc, as the first process of a PID namespace.
func probeProc([]string) outcome {
	if err := private(); err != nil {
		return failure("make mounts private", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return failure("mount /proc", err)
	}
	if self, err := os.Readlink("/proc/self"); err != nil || self != "1" {
		return outcome{Step: "look into the fresh /proc", Text: fmt.Sprintf("self is %q", self)}
	}
	return outcome{}
}

// probeLoopback brings up the only interface of a new network.
func probeLoopback([]string) outcome {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return failure("make a socket", err)
	}
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return failure("name the interface", err)
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return failure("bring up lo", err)
	}
	return outcome{}
}

// probeSeccomp installs a filter that refuses one call, and makes the call.
func probeSeccomp([]string) outcome {
	const refused = unix.EXDEV // no call here fails so by itself
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 0, Jf: 1, K: unix.SYS_GETPRIORITY},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(refused)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return failure("set no_new_privs", err)
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		return failure("install a filter", errno)
	}
	if _, err := unix.Getpriority(unix.PRIO_PROCESS, 0); !errors.Is(err, refused) {
		return outcome{Step: "use a filter", Text: "what it refuses is not refused"}
	}
	return outcome{}
}

// probeLandlock asks for the version, restricts itself to reading, and tries
// to write in the directory that it was given.
func probeLandlock(args []string) outcome {
	abi, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return failure("ask for Landlock", errno)
	}
	seen := outcome{Number: int(abi)}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_WRITE_FILE}
	const onlyFiles = 8 // size of the attributes of the first version
	ruleset, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), onlyFiles, 0)
	if errno != 0 {
		return failure("make a Landlock ruleset", errno)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return failure("set no_new_privs", err)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0); errno != 0 {
		return failure("restrict by Landlock", errno)
	}
	if len(args) > 0 {
		if err := os.WriteFile(filepath.Join(args[0], "landlock"), nil, 0o600); !errors.Is(err, unix.EACCES) {
			return outcome{Step: "use Landlock", Text: "what it refuses is not refused"}
		}
	}
	return seen
}

// probeTerminal passes a line through a PTY.
func probeTerminal([]string) outcome {
	ours, theirs, err := pty.Open()
	if err != nil {
		return failure("open a PTY", err)
	}
	defer ours.Close()
	defer theirs.Close()
	const line = "x\n"
	if _, err := ours.WriteString(line); err != nil {
		return failure("write to a PTY", err)
	}
	got := make([]byte, len(line))
	if n, err := theirs.Read(got); err != nil || string(got[:n]) != line {
		return outcome{Step: "read from a PTY", Text: fmt.Sprintf("%q, %v", got[:n], err)}
	}
	return outcome{Text: theirs.Name()}
}

// probeInotify watches a directory.
func probeInotify([]string) outcome {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return failure("inotify_init1", err)
	}
	if _, err := unix.InotifyAddWatch(fd, "/", unix.IN_CREATE); err != nil {
		return failure("inotify_add_watch", err)
	}
	return outcome{}
}

// What a confined child may be able to do.
const (
	didRead          = "read"
	didWrite         = "write in the workspace"
	didWriteOutside  = "write outside of the workspace"
	didWriteMetadata = "write in .git"
	didMakeMetadata  = "make .codex"
	didNetwork       = "use the network"
	didOwnSockets    = "connect to a Unix socket of its own"
	didPrivileges    = "gain privileges"
)

// probeConfined runs inside of a sandbox and tells what it can do, with the
// directories that attempts makes.
func probeConfined(args []string) outcome {
	if len(args) != 1 {
		return outcome{Step: "start", Text: "a directory is missing"}
	}
	d := attemptsIn(args[0])
	var o outcome
	try := func(what string, f func() error) {
		if f() == nil {
			o.Did = append(o.Did, what)
		}
	}
	file := func(dir string) func() error {
		return func() error { return os.WriteFile(filepath.Join(dir, "made"), []byte("x"), 0o600) }
	}
	try(didRead, func() error { _, err := os.ReadFile(d.readable); return err })
	try(didWrite, file(d.workspace))
	try(didWriteOutside, file(d.outside))
	try(didWriteMetadata, file(d.git))
	try(didMakeMetadata, func() error {
		if os.Mkdir(d.codex, 0o700) == nil {
			return nil
		}
		return file(d.codex)()
	})
	try(didNetwork, func() error {
		// To connect UDP sends nothing. The address is one for documents.
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{192, 0, 2, 1}, Port: 53})
			_ = unix.Close(fd)
		}
		return err
	})
	try(didOwnSockets, func() error {
		address := &unix.SockaddrUnix{Name: "socket"} // in the workspace; its path could be too long
		server, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		client, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return errors.Join(unix.Bind(server, address), unix.Listen(server, 1), unix.Connect(client, address))
	})
	try(didPrivileges, func() error {
		if on, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || on == 0 {
			return nil
		}
		return unix.EPERM
	})
	return o
}

// attempts are the places where a confined child tries to write.
type attempts struct{ workspace, git, codex, outside, readable string }

func attemptsIn(dir string) attempts {
	w := filepath.Join(dir, "workspace")
	return attempts{
		workspace: w, git: filepath.Join(w, ".git"), codex: filepath.Join(w, ".codex"),
		outside: filepath.Join(dir, "outside"), readable: filepath.Join(dir, "outside", "readable"),
	}
}

// make makes what the attempts need. The directory .codex is missing.
func (a attempts) make() error {
	for _, dir := range []string{a.workspace, a.git, a.outside} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	return os.WriteFile(a.readable, []byte("x"), 0o600)
}

// clip shortens what a program says to one line.
func clip(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxSaid {
		s = strings.ToValidUTF8(s[:maxSaid], "") + "…"
	}
	return s
}
