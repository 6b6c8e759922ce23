//go:build linux

package runner

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// listenEnv makes TestMain listen on the Unix socket with that path and pass it on as
// standard output, which is a socket too; then it waits for the end of its standard input.
const listenEnv = "LAUNCH_TEST_LISTEN"

// waitEnv makes TestMain only wait for the end of its standard input.
const waitEnv = "LAUNCH_TEST_WAIT"

// listen is run by TestMain for listenEnv.
func listen(path string) int {
	l, err := net.Listen("unix", path)
	if err != nil {
		return 1
	}
	f, err := l.(*net.UnixListener).File()
	if err != nil {
		return 1
	}
	if err := unix.Sendmsg(1, []byte{1}, unix.UnixRights(int(f.Fd())), nil, 0); err != nil {
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// listener is a process that listens on a socket.
type listener struct {
	cmd    *exec.Cmd
	in     io.Closer
	socket *os.File // its file
}

// startListener starts a process that listens on a socket, of which this process has a
// duplicate, so that connections are accepted after its end, too.
func startListener(t *testing.T) *listener {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	theirs := os.NewFile(uintptr(pair[1]), "socket")
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stdout = append(os.Environ(), listenEnv+"="+path), theirs
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	_ = theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{cmd: cmd, in: in}
	t.Cleanup(l.end)
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(pair[0], make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		t.Fatalf("the process has sent no socket: %v", err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil {
		t.Fatal(err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fds[0]) })
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	l.socket = os.NewFile(uintptr(fd), path)
	t.Cleanup(func() { _ = l.socket.Close() })
	return l
}

// end ends the process. Its pid may be reused afterwards.
func (l *listener) end() {
	_ = l.in.Close()
	_ = l.cmd.Wait()
}

// TestOutsideListenersAreNotConnectedTo: the listener is checked before a connection is made, even
// if the path is a link to the socket of a service outside. Otherwise the service would serve the
// connection or be started by it.
func TestOutsideListenersAreNotConnectedTo(t *testing.T) {
	l := startListener(t)
	self, err := openProcess(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	for member, want := range map[int]error{l.cmd.Process.Pid: nil, os.Getpid() + 1_000_000: ErrForeignSocket} {
		if err := self.mayListen(l.socket, func() []int { return []int{member} }); !errors.Is(err, want) {
			t.Errorf("members %d: %v, want %v", member, err, want)
		}
	}
	path := filepath.Join(t.TempDir(), "s")
	outside, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	waiting := exec.Command(os.Args[0])
	waiting.Env = append(os.Environ(), waitEnv+"=1")
	in, err := waiting.StdinPipe()
	if err == nil {
		err = waiting.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = waiting.Wait() }()
	members := func() []int { return []int{waiting.Process.Pid} }
	d, err := openProcess(waiting.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	link := path + ".link"
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	socket, err := d.openSocket(link)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if err := d.mayListen(socket, members); !errors.Is(err, ErrForeignSocket) {
		t.Errorf("a link to a service outside: %v", err)
	}
}

// TestDialOwn connects to a socket on which a process listens, or has listened: another
// process of the sandbox may have the pid of an ended one whose socket still exists.
func TestDialOwn(t *testing.T) {
	l := startListener(t)
	pid := l.cmd.Process.Pid
	dial := func(members ...int) error {
		conn, err := dialOwn(t.Context(), func() []int { return members }, l.socket)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	if err := dial(pid); err != nil {
		t.Fatal(err)
	}
	if err := dial(pid + 1); !errors.Is(err, ErrForeignSocket) {
		t.Errorf("another process listens: %v", err)
	}
	l.end()
	if err := dial(pid); !errors.Is(err, ErrForeignSocket) {
		t.Errorf("the process that listened has ended: %v", err)
	}
}

// TestStartedBefore compares processes with a socket that one of them has made, and with a
// file that is much older.
func TestStartedBefore(t *testing.T) {
	l := startListener(t)
	shell, err := os.Open("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	defer shell.Close()
	for _, f := range []*os.File{l.socket, shell} {
		var st unix.Statx_t
		err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st)
		if err == nil && st.Mask&unix.STATX_BTIME == 0 {
			err = unix.ENOTSUP
		}
		testutil.Need(t, "file system that keeps when files were made", err, unix.ENOTSUP)
	}
	self, err := openProcess(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	maker, err := openProcess(l.cmd.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer maker.Close()
	if !self.startedBefore(l.socket) || !maker.startedBefore(l.socket) {
		t.Error("the process that made the socket, or its parent, counts as younger")
	}
	if maker.startedBefore(shell) {
		t.Error("a process counts as older than a file that was there before it")
	}
	l.end()
	if maker.startedBefore(l.socket) {
		t.Error("a process that has ended counts as older than a file")
	}
}

// TestIsCommand distinguishes launchers from commands by the name of the program, also
// after an upgrade has replaced the program's file.
func TestIsCommand(t *testing.T) {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{launcherName: false, "bwrap": false, "other": true} {
		path := program(t, t.TempDir(), name, string(self))
		cmd := exec.Command(path)
		cmd.Env = append(os.Environ(), waitEnv+"=1")
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		d, err := openProcess(cmd.Process.Pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.isCommand(); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if got := d.isCommand(); got != want {
			t.Errorf("%s, whose file was removed: %v", name, got)
		}
		_ = d.Close()
		_ = in.Close()
		_ = cmd.Wait()
	}
}
