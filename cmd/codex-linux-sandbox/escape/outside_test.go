package escape

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// each runs a test for each pair of a user and a backend of a list: see testutil.Pairs. If names is
// nil, it uses all backends. The pairs run beside each other when the calling test has returned.
func each(t *testing.T, names []string, f func(t *testing.T, p *place, backend string)) {
	t.Helper()
	if names == nil {
		names = everyBackend
	}
	for uid, backends := range testutil.Pairs(t.Name(), users(), names) {
		for _, backend := range backends {
			t.Run(backend+" as "+strconv.Itoa(uid), func(t *testing.T) {
				t.Parallel()
				need(t, uid, backend)
				f(t, newPlace(t, uid), backend)
			})
		}
	}
}

// oneByOne is each for a test that changes or uses up what all processes, or those of a user, share.
func oneByOne(t *testing.T, names []string, f func(t *testing.T, p *place, backend string)) {
	t.Helper()
	for uid, backends := range testutil.Pairs(t.Name(), users(), names) {
		for _, backend := range backends {
			t.Run(backend+" as "+strconv.Itoa(uid), func(t *testing.T) {
				need(t, uid, backend)
				f(t, newPlace(t, uid), backend)
			})
		}
	}
}

// eachOnce runs a long test for each backend of a list, and uses the users in turns.
func eachOnce(t *testing.T, names []string, f func(t *testing.T, p *place, backend string)) {
	t.Helper()
	for i, backend := range names {
		uid := users()[i%len(users())]
		t.Run(backend+" as "+strconv.Itoa(uid), func(t *testing.T) {
			t.Parallel()
			need(t, uid, backend)
			f(t, newPlace(t, uid), backend)
		})
	}
}

// contained checks that the attack was tried and no part of it worked, or that the launcher refused
// to run it.
func contained(t *testing.T, o outcome) {
	t.Helper()
	if found := o.breaches(); len(found) > 0 {
		t.Errorf("escaped: %s", strings.Join(found, "; "))
	}
	if !strings.Contains(o.text, "held: ") && !strings.Contains(o.text, "done") && o.code != exitFailed {
		t.Errorf("nothing was tried: %v", o)
	}
}

// works checks that an attack works outside of a sandbox. It skips the test if the container that the tests run in refuses it.
func works(t *testing.T, o outcome) {
	t.Helper()
	if refused := controlled(t, o); refused != "" {
		t.Skip(refused)
	}
}

// TestUnixSockets: a command cannot reach the sockets of programs outside, with or without a
// connection.
func TestUnixSockets(t *testing.T) {
	each(t, nil, func(t *testing.T, p *place, backend string) {
		name := fmt.Sprintf("escape-%d-%s", os.Getpid(), filepath.Base(p.dir))
		file := p.dir + "/s"
		for _, address := range []string{"@" + name, file} {
			l, err := net.Listen("unix", address)
			must(t, err)
			defer l.Close()
		}
		must(t, os.Chmod(file, 0o777))
		works(t, p.run("", "", "abstract", name, file))
		t.Run("connections", func(t *testing.T) { contained(t, p.run(backend, p.opened(), "abstract", name, file)) })
		t.Run("datagrams", func(t *testing.T) {
			abstract, named := hostServer(t, unix.SOCK_DGRAM, "@"+name+"-d"), hostServer(t, unix.SOCK_DGRAM, file+"-d")
			contained(t, p.run(backend, p.opened(), "datagram", name+"-d", file+"-d"))
			if a, n := abstract.Load(), named.Load(); a+n > 0 {
				t.Errorf("got %d datagrams at the abstract socket and %d at the one in the file system, want none", a, n)
			}
			works(t, p.run("", "", "datagram", name+"-d", file+"-d"))
		})
	})
}

// TestOtherInterfaces: the filter also applies to the system call interfaces of i386 and x32.
func TestOtherInterfaces(t *testing.T) {
	each(t, nil, func(t *testing.T, p *place, backend string) {
		if runtime.GOARCH != "amd64" {
			t.Skip("other processors have no such interfaces")
		}
		o := p.run(backend, p.opened(), "i386")
		if len(o.breaches()) > 0 || o.code != 128+int(unix.SIGSYS) {
			t.Errorf("i386: %v", o)
		}
		contained(t, p.run(backend, p.opened(), "x32"))
	})
}

// TestTracedCalls: a command that traces its own process and changes the number of a call does not get past the filter.
func TestTracedCalls(t *testing.T) {
	each(t, nil, func(t *testing.T, p *place, backend string) {
		if runtime.GOARCH != "amd64" {
			t.Skip("the attack knows the registers of one architecture")
		}
		works(t, p.run("", "", "traced calls"))
		contained(t, p.run(backend, p.opened(), "traced calls"))
	})
}

// TestTheInitTracesNothing: a command that asks its parent to trace it runs on, with the exit code of its own.
func TestTheInitTracesNothing(t *testing.T) {
	each(t, []string{"namespaces"}, func(t *testing.T, p *place, backend string) {
		if o := p.run(backend, p.opened(), "traceme"); o.code != 7 || !strings.Contains(o.text, "it runs on") {
			t.Errorf("got %v, want code 7", o)
		}
	})
}

// TestInterfacesAreListed: a command lists the interfaces of its own network, which has one, and none with --no-local-sockets.
func TestInterfacesAreListed(t *testing.T) {
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		for option, want := range map[string]int{"--no-local-sockets": 0, "": 1} {
			cmd := p.command(t.Context(), backend, p.opened(), "interfaces")
			if option != "" {
				cmd.Args = slices.Insert(cmd.Args, 1, option)
			}
			if o := p.finish(cmd); len(o.breaches()) != want || want == 1 && !strings.Contains(o.text, "interface lo") {
				t.Errorf("%q: got %v, want %d interfaces", option, o, want)
			}
		}
	})
}

// TestConfigurationOfSSH: the configuration of ssh, which ssh reads only if it is root's or the user's, is the user's in a view whose
// users do not include root. It can be neither written, nor read where a policy denies it. If the file belongs to a
// third user, ssh refuses it outside, too, and the view shows it as it is.
func TestConfigurationOfSSH(t *testing.T) {
	const name = "/etc/ssh/ssh_config"
	var outside unix.Stat_t
	if err := unix.Stat(name, &outside); err != nil {
		t.Skip("there is no ssh: ", err)
	}
	each(t, []string{"namespaces"}, func(t *testing.T, p *place, backend string) {
		want := p.uid
		if inContainer && outside.Uid != 0 {
			want = int(outside.Uid) // in a rootless container root of the host has no number
		}
		o := p.run(backend, p.readOnly(), "owner", name)
		if contained(t, o); !strings.Contains(o.text, fmt.Sprintf("owner %d:", want)) {
			t.Errorf("got %v, want owner %d", o, want)
		}
		contained(t, p.run(backend, entries("root=read", name+"=deny"), "read", name))
		contained(t, p.run(backend, entries("root=read", "/etc/ssh=deny"), "read", name))
	})
}

// TestOwnersOfRoot: in a sandbox of root a file can be given away without an error, and stays root's. Landlock and other users refuse it.
func TestOwnersOfRoot(t *testing.T) {
	each(t, nil, func(t *testing.T, p *place, backend string) {
		name := p.file("ws/given", "")
		var before, after unix.Stat_t
		must(t, unix.Stat(name, &before))
		o := p.run(backend, p.opened(), "give away", name)
		must(t, unix.Stat(name, &after))
		if after.Uid != before.Uid || after.Gid != before.Gid {
			t.Errorf("the owner is %d:%d, want %d:%d", after.Uid, after.Gid, before.Uid, before.Gid)
		}
		want := 0
		if before.Uid == 0 && backend != "landlock" {
			want = 8
		}
		if got := len(o.breaches()); got != want {
			t.Errorf("got %v, want %d calls that succeed", o, want)
		}
	})
}

// TestSystemV: a command cannot use System V IPC objects of the host, even if it knows their
// numbers.
func TestSystemV(t *testing.T) {
	each(t, nil, func(t *testing.T, p *place, backend string) {
		id := func(nr uintptr, args ...uintptr) int {
			var a [3]uintptr
			copy(a[:], args)
			n, _, errno := unix.Syscall(nr, a[0], a[1], a[2])
			if errno != 0 {
				t.Fatal(errno)
			}
			return int(n)
		}
		const private, mode = 0, 0o666
		shm := id(unix.SYS_SHMGET, private, 4096, mode)
		sem := id(unix.SYS_SEMGET, private, 1, mode)
		msg := id(unix.SYS_MSGGET, private, mode)
		defer func() {
			_, _, _ = unix.Syscall(unix.SYS_SHMCTL, uintptr(shm), unix.IPC_RMID, 0)
			_, _, _ = unix.Syscall(unix.SYS_SEMCTL, uintptr(sem), 0, unix.IPC_RMID)
			_, _, _ = unix.Syscall(unix.SYS_MSGCTL, uintptr(msg), unix.IPC_RMID, 0)
		}()
		args := []string{"sysv", strconv.Itoa(shm), strconv.Itoa(sem), strconv.Itoa(msg)}
		works(t, p.run("", "", args...))
		contained(t, p.run(backend, p.opened(), args...))
	})
}

// TestMessageQueues: a command cannot use POSIX message queues of the host.
func TestMessageQueues(t *testing.T) {
	each(t, nil, func(t *testing.T, p *place, backend string) {
		name := "escape-" + filepath.Base(p.dir)
		queue := append([]byte(name), 0)
		make := func() {
			fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(&queue[0])), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o666, 0, 0, 0)
			if errno != 0 {
				testutil.Need(t, "message queues", errno, unix.ENOSYS)
			}
			_ = unix.Fchown(int(fd), p.uid, p.uid)
			_ = unix.Close(int(fd))
		}
		make()
		defer func() { _, _, _ = unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(&queue[0])), 0, 0) }()
		works(t, p.run("", "", "mqueue", name))
		make()
		contained(t, p.run(backend, p.opened(), "mqueue", name))
	})
}

// TestSetuid: a setuid program of root does not give root's rights.
func TestSetuid(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a setuid program")
	}
	for _, backend := range everyBackend {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			need(t, nobody, backend)
			p := newPlace(t, nobody)
			program, err := os.ReadFile(p.attacker)
			must(t, err)
			suid := p.dir + "/suid"
			must(t, testutil.WriteProgram(suid, program))
			must(t, os.Chmod(suid, 0o755|os.ModeSetuid|os.ModeSetgid))
			p.attacker = suid
			works(t, p.run("", "", "setuid"))
			contained(t, p.run(backend, p.opened(), "setuid"))
		})
	}
}

// TestOrphansEnd: no process outlives the command, whichever process is its parent.
func TestOrphansEnd(t *testing.T) {
	each(t, nil, func(t *testing.T, p *place, backend string) {
		token := "token-" + filepath.Base(p.dir)
		o := p.run(backend, p.opened(), "orphans", token)
		if o.code != 0 {
			t.Fatalf("got %v, want o.code 0", o)
		}
		if left := withArgument(token); len(left) > 0 {
			t.Errorf("%d processes outlive the launcher", len(left))
		}
		await(t, "the end of all", func() bool { return len(withArgument(token)) == 0 })
	})
}

// withArgument returns the processes that have the word as an argument.
func withArgument(word string) []int {
	var pids []int
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		line, err := os.ReadFile(name)
		if err == nil && slices.Contains(strings.Split(string(line), "\x00"), word) {
			pid, _ := strconv.Atoi(strings.Split(name, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestTheFirstProcessShowsNoArguments: a command cannot read the denied paths from the arguments of
// the sandbox's first process, also where it sees the /proc of a container, in which that process has another number.
func TestTheFirstProcessShowsNoArguments(t *testing.T) {
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		p.file("name-of-a-secret", "")
		o := p.run(backend, entries("root=read", p.dir+"/name-of-a-secret=deny"), "show the first process")
		if strings.Contains(o.text, "name-of-a-secret") || strings.Contains(o.text, "HOME=") || !strings.Contains(o.text, "done") {
			t.Errorf(`got %q; want a text without "name-of-a-secret", a text without "HOME=", a text with "done"`, o.text)
		}
	})
}

// TestTemporaryDirectory: a profile that grants $TMPDIR grants it only if it is a directory for temporary files.
func TestTemporaryDirectory(t *testing.T) {
	each(t, mounted, func(t *testing.T, p *place, backend string) {
		run := func(value string) outcome {
			ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
			defer cancel()
			cmd := p.command(ctx, backend, entries("root=read", "tmpdir=write"), "create", p.dir+"/made")
			cmd.Env = append(cmd.Env, "TMPDIR="+value)
			return p.finish(cmd)
		}
		for _, value := range []string{"/", "/var/..", "//"} {
			contained(t, run(value))
			if exists(p.dir + "/made") {
				t.Fatalf("TMPDIR=%s made everything writable", value)
			}
		}
		works(t, run(p.dir))
	})
}

// TestInitCannotBeKilled: sending signals to the init has no effect.
func TestInitCannotBeKilled(t *testing.T) {
	each(t, nil, func(t *testing.T, p *place, backend string) {
		o := p.run(backend, p.opened(), "kill init")
		if !strings.Contains(o.text, "alive\ndone\n") || o.code != 0 {
			t.Errorf("got %v; want o.text with %q, o.code 0", o, "alive\ndone\n")
		}
	})
}

// TestTerminals: a command cannot inject input into a terminal, not even its own, and cannot open
// other users' terminals.
func TestTerminals(t *testing.T) {
	each(t, nil, func(t *testing.T, p *place, backend string) {
		run := func(backend string) outcome {
			master, slave, name := openPTY(t)
			defer master.Close()
			ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
			defer cancel()
			_ = unix.Fchown(int(slave.Fd()), p.uid, p.uid)
			cmd := p.command(ctx, backend, p.opened(), "tty")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
			cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
			_ = name
			said := make(chan string)
			go func() {
				b, _ := io.ReadAll(master)
				said <- string(b)
			}()
			must(t, cmd.Start())
			slave.Close()
			_ = cmd.Wait()
			return outcome{text: <-said}
		}
		works(t, run(""))
		contained(t, run(backend))
		master, slave, name := openPTY(t)
		defer master.Close()
		defer slave.Close()
		_ = unix.Fchown(int(slave.Fd()), p.uid, p.uid)
		works(t, p.run("", "", "terminal", name))
		contained(t, p.run(backend, p.opened(), "terminal", name))
	})
}

func openPTY(t *testing.T) (master, slave *os.File, name string) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	testutil.Need(t, "terminals", err, unix.ENOENT)
	must(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	must(t, err)
	name = "/dev/pts/" + strconv.Itoa(n)
	out, err := unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	must(t, err)
	return os.NewFile(uintptr(fd), "ptmx"), os.NewFile(uintptr(out), name), name
}

// TestEnvironment: the command's environment variables change neither the launcher nor the programs
// that the launcher starts outside of the sandbox.
func TestEnvironment(t *testing.T) {
	each(t, nil, func(t *testing.T, p *place, backend string) {
		run := func(backend string, env ...string) outcome {
			ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
			defer cancel()
			cmd := p.command(ctx, backend, p.readOnly(), "alive")
			if backend == "" {
				cmd.Path = "/bin/true"
			}
			cmd.Env = append(cmd.Env, env...)
			return p.finish(cmd)
		}
		traces := func() []string {
			found, _ := filepath.Glob(p.dir + "/trace*")
			return found
		}
		// LD_DEBUG_OUTPUT makes the dynamic loader of a program write a file. It would do so outside of the sandbox.
		loader := []string{"LD_DEBUG=libs", "LD_DEBUG_OUTPUT=" + p.dir + "/trace", "LD_PRELOAD=" + p.ws + "/evil.so", "LD_LIBRARY_PATH=" + p.ws, "LD_AUDIT=" + p.ws + "/evil.so"}
		run("", loader...)
		if len(traces()) == 0 {
			t.Log("this machine's loader leaves no traces: the control is missing")
		}
		for _, name := range traces() {
			must(t, os.Remove(name))
		}
		o := run(backend, loader...)
		if found := traces(); len(found) > 0 {
			t.Errorf("the command's variables were used outside of the sandbox: %v", found)
		}
		if o.code != 0 {
			t.Errorf("got %v, want o.code 0", o)
		}
		for _, env := range [][]string{
			{"GODEBUG=gctrace=1,schedtrace=1000,inittrace=1,execerrdot=0"}, {"GOTRACEBACK=crash"}, {"GOMAXPROCS=1"}, {"GOGC=1", "GOMEMLIMIT=1"},
			{"CODEX_SANDBOX_ARG0=other"}, {"TMPDIR=/"}, {"HOME=/"}, {"PATH="},
		} {
			if o := run(backend, env...); !strings.Contains(o.text, "ready") && (env[0] != "PATH=" || backend != "bwrap") {
				t.Errorf(`%v: got %v; want env[0] "PATH=", backend "bwrap"`, env, o)
			}
			ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
			cmd := p.command(ctx, backend, p.readOnly(), "write", p.secret)
			cmd.Env = append(cmd.Env, env...)
			if env[0] != "PATH=" || backend != "bwrap" {
				contained(t, p.finish(cmd))
			}
			cancel()
			p.unharmed()
		}
	})
}

// TestOwnBwrap: the launcher does not use a bwrap that is in the workspace.
func TestOwnBwrap(t *testing.T) {
	for _, uid := range users() {
		need(t, uid, "bwrap")
		p := newPlace(t, uid)
		must(t, testutil.WriteProgram(p.ws+"/bwrap", []byte("#!/bin/sh\necho breach: a bwrap of the workspace ran\n")))
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		for _, dir := range []string{p.ws, p.ws + "/.", ".", "", p.dir + "/link"} {
			_ = os.Symlink(p.ws, p.dir+"/link")
			cmd := p.command(ctx, "bwrap", p.opened(), "alive")
			cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
			contained(t, p.finish(cmd))
			// The launcher may be started in another directory than the command.
			cmd = p.command(ctx, "bwrap", p.opened(), "alive")
			cmd.Dir, cmd.Env = "/", []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
			contained(t, p.finish(cmd))
		}
	}
}

// TestBwrapWithoutSize runs a command with a bwrap that, like versions before 0.7.0, ends because
// it does not know --size.
func TestBwrapWithoutSize(t *testing.T) {
	for _, uid := range users() {
		need(t, uid, "bwrap")
		p := newPlace(t, uid)
		real, err := exec.LookPath("bwrap")
		must(t, err)
		bin := t.TempDir()
		must(t, os.Chmod(filepath.Dir(bin), 0o755))
		must(t, os.Chmod(bin, 0o755))
		// The first argument is --args, the second the descriptor with the arguments.
		must(t, os.WriteFile(bin+"/bwrap", []byte("#!/bin/sh\n"+
			"if tr '\\0' '\\n' < /proc/self/fd/$2 | grep -qxe --size; then echo 'bwrap: Unknown option --size' >&2; exit 1; fi\n"+
			"exec "+real+" \"$@\"\n"), 0o755))
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		cmd := p.command(ctx, "bwrap", p.workspace(), "alive")
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
		o := p.finish(cmd)
		cancel()
		if o.code != 0 || !strings.Contains(o.text, "done") {
			t.Errorf("uid %d: the command did not run: %v", uid, o)
		}
	}
}

// TestArguments: the launcher never reads words of the command as its own options.
func TestArguments(t *testing.T) {
	each(t, nil, func(t *testing.T, p *place, backend string) {
		for _, words := range [][]string{
			{"--second-stage", "network=1", "--"}, {"--backend", "landlock"}, {"--backend", "broker"}, {"--", "--permission-profile", `{"type":"disabled"}`},
			{"--permission-profile", `{"type":"disabled"}`}, {"--allow-nesting"}, {"--use-legacy-landlock"}, {"--exec-fd", "0"}, {"--env-fd", "0"},
		} {
			ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
			cmd := p.command(ctx, backend, p.readOnly(), append([]string{"write", p.secret}, words...)...)
			contained(t, p.finish(cmd))
			cancel()
		}
		// If an option is repeated before the separator, the last one counts or the launcher refuses the command line.
		for _, words := range [][]string{
			{"--permission-profile="}, {"--backend=none"}, {"--exec-fd=-1"}, {"--env-fd=99"}, {"--permission-profile-fd=98"},
		} {
			ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
			cmd := p.command(ctx, backend, p.readOnly(), "write", p.secret)
			at := slices.Index(cmd.Args, "--")
			cmd.Args = slices.Insert(cmd.Args, at, words...)
			if o := p.finish(cmd); o.code == 0 || len(o.breaches()) > 0 {
				t.Errorf("%v: got %v; want o.code other than 0, len(o.breaches()) at most 0", words, o)
			}
			cancel()
		}
		p.unharmed()
	})
}

// TestHostileProfiles: a nonsensical profile grants nothing.
func TestHostileProfiles(t *testing.T) {
	each(t, nil, func(t *testing.T, p *place, backend string) {
		entry := func(path, access string) string {
			return `{"type":"managed","network":"restricted","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":` + path + `,"access":"` + access + `"}]}}`
		}
		for name, profile := range map[string]string{
			"empty": "{}", "null": "null", "list": "[]", "twice": entry(`{"type":"path","path":"/tmp"}`, "write") + entry(`{"type":"path","path":"/"}`, "write"),
			"deep":               strings.Repeat("[", 100_000),
			"NUL":                entry(`{"type":"path","path":"`+p.dir+`\u0000/x"}`, "write"),
			"NUL at the end":     entry(`{"type":"path","path":"`+p.ws+`\u0000"}`, "write"),
			"dots":               entry(`{"type":"path","path":"`+p.ws+`/../none/../ws"}`, "write"),
			"relative":           entry(`{"type":"path","path":"../"}`, "write"),
			"no path":            entry(`{"type":"path","path":""}`, "write"),
			"unknown":            entry(`{"type":"special","value":{"kind":"unknown","path":"/","subpath":"/"}}`, "write"),
			"writable glob":      entry(`{"type":"glob_pattern","pattern":"`+p.dir+`/**"}`, "write"),
			"unknown access":     entry(`{"type":"path","path":"`+p.dir+`"}`, "execute"),
			"access twice":       strings.Replace(entry(`{"type":"path","path":"`+p.dir+`"}`, "read"), `"access":"read"}]`, `"access":"read","access":"write"}]`, 1),
			"type twice":         `{"type":"managed","type":"disabled","network":"restricted","file_system":{"type":"restricted","entries":[]}}`,
			"unpaired surrogate": entry(`{"type":"path","path":"`+p.dir+`\ud800"}`, "write"),
			"long":               entry(`{"type":"path","path":"/`+strings.Repeat("x/", 40_000)+`"}`, "write"),
		} {
			o := p.run(backend, profile, "write", p.secret)
			if len(o.breaches()) > 0 {
				t.Errorf("%s: escaped: %v", name, o)
			}
			if o.sig != 0 || strings.Contains(o.text, "goroutine ") {
				t.Errorf("%s: the launcher crashed: %v", name, o)
			}
			p.unharmed()
		}
	})
}
