package escape

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// TestInheritedDescriptors: a command cannot write to a file through a descriptor that it inherited
// open for reading.
func TestInheritedDescriptors(t *testing.T) {
	file := func(t *testing.T, path string, flags int) *os.File {
		f, err := os.OpenFile(path, flags, 0)
		must(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	run := func(p *place, backend string, stdin io.Reader, more ...*os.File) outcome {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		cmd := p.command(ctx, backend, p.readOnly(), "inherited", "made")
		cmd.Stdin, cmd.ExtraFiles = stdin, more
		if stdin == nil {
			cmd.Stdin = strings.NewReader("")
		}
		return p.finish(cmd)
	}
	each(t, nil, func(t *testing.T, p *place, backend string) {
		dir, secret := file(t, p.dir, unix.O_DIRECTORY), file(t, p.secret, os.O_RDONLY)
		works(t, run(p, "", secret, dir))
		_ = os.Remove(p.dir + "/made")
		t.Run("a directory as descriptor 3", func(t *testing.T) { contained(t, run(p, backend, nil, dir)) })
		t.Run("a file as descriptor 3", func(t *testing.T) { contained(t, run(p, backend, nil, secret)) })
		t.Run("a directory as standard input", func(t *testing.T) { contained(t, run(p, backend, dir)) })
		t.Run("a file as standard input", func(t *testing.T) { contained(t, run(p, backend, secret)) })
		if p.uid != 0 || backend == "bwrap" {
			return // under bwrap devices are root's; see docs/sandbox.md
		}
		// The server gives a process the host's /dev/null as its standard
		// input. This one is a separate device.
		null := p.dir + "/null"
		err := unix.Mknod(null, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))
		testutil.Need(t, "permission to make devices", err, unix.EPERM)
		t.Run("a device as standard input", func(t *testing.T) {
			o := run(p, backend, file(t, null, os.O_RDONLY))
			// A command may open /dev/null: that is the purpose of the device.
			for _, what := range o.breaches() {
				if what != "reopen descriptor 0" {
					t.Errorf("escaped: %s", what)
				}
			}
		})
	})
}

// TestInheritedDescriptorsOfWhatIsHidden: an inherited descriptor that is open for reading gives no
// access to files outside of the view, whatever its number and kind.
func TestInheritedDescriptorsOfWhatIsHidden(t *testing.T) {
	const high = 1100 // above the limit of select, and above usual limits
	open := func(name string, flags int) func(*place) (int, error) {
		return func(p *place) (int, error) { return unix.Open(p.dir+"/"+name, flags|unix.O_CLOEXEC, 0) }
	}
	for name, make := range map[string]func(p *place) (int, error){
		"a directory":         open("hidden", unix.O_RDONLY|unix.O_DIRECTORY),
		"a directory by path": open("hidden", unix.O_PATH),
		"a file":              open("secret", unix.O_RDONLY),
		"a file by path":      open("secret", unix.O_PATH),
		"a FIFO":              open("fifo", unix.O_RDONLY|unix.O_NONBLOCK),
		"a removed directory": func(p *place) (int, error) {
			must(p.t, os.Mkdir(p.dir+"/hidden/gone", 0o777))
			defer os.Remove(p.dir + "/hidden/gone")
			return open("hidden/gone", unix.O_RDONLY|unix.O_DIRECTORY)(p)
		},
		"a removed file": func(p *place) (int, error) {
			p.file("hidden/gone", "key")
			defer os.Remove(p.dir + "/hidden/gone")
			return open("hidden/gone", unix.O_RDONLY)(p)
		},
		"an inotify instance": func(*place) (int, error) { return unix.InotifyInit1(unix.IN_CLOEXEC) },
		"an epoll instance":   func(*place) (int, error) { return unix.EpollCreate1(unix.EPOLL_CLOEXEC) },
		"a process":           func(*place) (int, error) { return unix.PidfdOpen(os.Getpid(), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, nil, func(t *testing.T, p *place, backend string) {
				p.file("hidden/file", "key")
				must(t, os.Chmod(p.dir+"/hidden", 0o777))
				must(t, os.Chmod(p.secret, 0o666))
				must(t, unix.Mkfifo(p.dir+"/fifo", 0o666))
				must(t, os.Chmod(p.dir+"/fifo", 0o666))
				fd, err := make(p)
				must(t, err)
				file := os.NewFile(uintptr(fd), name)
				defer file.Close()
				run := func(backend string) outcome {
					ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
					defer cancel()
					profile := entries("minimal=read", p.attacker+"=read", p.ws+"=read")
					cmd := p.command(ctx, backend, profile, "through", "made", "0", "3", strconv.Itoa(high))
					cmd.Stdin, cmd.ExtraFiles = file, slices.Concat([]*os.File{file}, nils[:high-4], []*os.File{file})
					return p.finish(cmd)
				}
				if name != "a process" { // before Linux 6.9 a pidfd is a file of its own kind
					works(t, run(""))
				}
				_ = os.Remove(p.dir + "/made")
				contained(t, run(backend))
			})
		})
	}
}

// TestInheritedDevices: the command does not get a device that its starter left open for writing, except its own terminal. Data
// that is written to the other end of a pseudoterminal counts as typed there.
func TestInheritedDevices(t *testing.T) {
	each(t, nil, func(t *testing.T, p *place, backend string) {
		master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
		must(t, err)
		defer master.Close()
		must(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
		n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
		must(t, err)
		terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
		must(t, err)
		defer terminal.Close()
		run := func(backend string, stdin *os.File, more *os.File, fds ...string) outcome {
			ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
			defer cancel()
			cmd := p.command(ctx, backend, p.opened(), append([]string{"devices that are open"}, fds...)...)
			cmd.Stdin, cmd.ExtraFiles = stdin, []*os.File{more}
			return p.finish(cmd)
		}
		works(t, run("", master, master, "0", "3"))
		works(t, run("", nil, terminal, "3"))
		contained(t, run(backend, master, master, "0", "3"))
		contained(t, run(backend, nil, terminal, "3"))
		// The command gets its own terminal, under each number.
		if o := run(backend, terminal, terminal, "0", "3"); len(o.breaches()) == 0 {
			t.Errorf("the command has not got its terminal: %v", o)
		}
	})
}

// TestInheritedSockets: a command without a network cannot reach other sockets from an inherited
// socket.
func TestInheritedSockets(t *testing.T) {
	each(t, nil, func(t *testing.T, p *place, backend string) {
		socket := func(name string) *os.File {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			must(t, err)
			f := os.NewFile(uintptr(fd), "socket")
			t.Cleanup(func() { f.Close() })
			if name != "" {
				must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: name}))
				must(t, os.Chmod(name, 0o777))
			}
			return f
		}
		name := p.dir + "/datagrams"
		socket(name)
		from := socket("")
		for _, backend := range []string{"", backend} {
			ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
			defer cancel()
			cmd := p.command(ctx, backend, p.readOnly(), "datagrams", name)
			cmd.Stdin, cmd.ExtraFiles = from, []*os.File{from}
			if backend == "" {
				works(t, p.finish(cmd))
			} else {
				contained(t, p.finish(cmd))
			}
		}
	})
}

// TestSocketsWithoutAView: a policy that permits writing everything needs no view, so the launcher
// executes the command in its own process. The network of the command is still off, and an
// inherited listener would give access to it.
func TestSocketsWithoutAView(t *testing.T) {
	const aView = "a view (inside)"
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	socket, err := listener.(*net.TCPListener).File()
	must(t, err)
	defer socket.Close()
	for _, uid := range users() {
		p := newPlace(t, uid)
		for name, args := range map[string][]string{
			"no view":        {"--permission-profile", entries("root=write")},
			"another's view": {"--apply-seccomp-then-exec", "--permission-profile", entries("root=read")},
			aView:            {"--permission-profile", entries("root=read")},
		} {
			t.Run(fmt.Sprintf("%s as %d", name, uid), func(t *testing.T) {
				if name == aView {
					need(t, uid, "namespaces")
				}
				args = append([]string{"--sandbox-policy-cwd", p.ws, "--command-cwd", p.ws}, args...)
				ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
				defer cancel()
				cmd := exec.CommandContext(ctx, p.launcher, append(args, "--", "sh", "-c", "readlink /proc/self/fd/0; readlink /proc/self/fd/3; echo done")...)
				cmd.Dir, cmd.SysProcAttr, cmd.Stdin, cmd.ExtraFiles = p.ws, as(uid), socket, []*os.File{socket}
				if o := p.finish(cmd); o.text != "/dev/null\ndone\n" || o.code != 0 {
					t.Errorf("got %v; want o.text %q, o.code 0", o, "/dev/null\ndone\n")
				}
			})
		}
	}
}

// nils are nil files.
var nils [4096]*os.File

// TestInheritedDescriptorsServe: descriptors that a shell opens for a command can be used.
func TestInheritedDescriptorsServe(t *testing.T) {
	each(t, nil, func(t *testing.T, p *place, backend string) {
		p.file("ws/in", "first\nsecond\n")
		read := func(file *os.File) string {
			ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
			defer cancel()
			out, err := os.Create(p.dir + "/out")
			must(t, err)
			defer out.Close()
			cmd := p.command(ctx, backend, p.readOnly(), "print", "0")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = file, out, out
			must(t, cmd.Run())
			b, err := os.ReadFile(p.dir + "/out")
			must(t, err)
			return string(b)
		}
		file, err := os.Open(p.ws + "/in")
		must(t, err)
		defer file.Close()
		_, err = file.Seek(int64(len("first\n")), io.SeekStart)
		must(t, err)
		if got := read(file); got != "second\ndone\n" {
			t.Errorf("a file: %q", got)
		}
		must(t, os.Remove(p.ws+"/in"))
		if got := read(file); got != "second\ndone\n" {
			t.Errorf("a removed file, as of a here-document: %q", got)
		}
	})
}
