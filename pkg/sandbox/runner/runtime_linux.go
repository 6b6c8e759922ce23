package runner

import (
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxArgument is the longest profile that is passed as an argument; the
	// kernel accepts 128 KiB. A longer one is passed in memory.
	maxArgument = 100 << 10
	// probeTime bounds the probe of backends.
	probeTime = 5 * time.Second
)

// Runtime starts commands in sandboxes. Its methods may be called from any
// goroutine. It keeps its programs open, so that the programs that it first
// found are started, even if the files are moved or replaced.
type Runtime struct {
	launcher, helper *os.File
	opts             Options
	env              []string // environment of the launcher: without a client's variables

	probe  sync.Once
	status Status
}

// NewRuntime finds the programs. Close must be called when the runtime is no
// longer needed.
func NewRuntime(opts Options) (*Runtime, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	// The launcher and the helper work sequentially; more threads only make
	// their start and end slower.
	r := &Runtime{opts: opts, env: []string{"GOMAXPROCS=1"}}
	if r.opts.Backend == "" {
		r.opts.Backend = Backends[0]
	}
	if r.opts.Output == nil {
		r.opts.Output = (*exec.Cmd).Output
	}
	if r.launcher, err = openProgram(opts.Launcher, self, launcherName, opts.Self); err != nil {
		return nil, fmt.Errorf(noProgram+": %w", launcherName, err)
	}
	if r.helper, err = openProgram(opts.Helper, self, helperName, opts.Self); err != nil {
		_ = r.launcher.Close()
		return nil, fmt.Errorf(noProgram+": %w", helperName, err)
	}
	for _, name := range []string{"PATH", "TMPDIR", "TMP", "TEMP"} {
		if value, ok := os.LookupEnv(name); ok {
			r.env = append(r.env, name+"="+value)
		}
	}
	return r, nil
}

// openProgram opens a program: at its path, beside this one, or this one.
func openProgram(path, self, name string, itself bool) (*os.File, error) {
	switch {
	case path != "":
	case itself:
		path = beside(self, name, "/proc/self/exe")
	default:
		path = filepath.Join(filepath.Dir(self), name)
	}
	return os.Open(path)
}

// beside returns the path of a program in the directory of the program self, or otherwise if it cannot be executed.
func beside(self, name, otherwise string) string {
	path := filepath.Join(filepath.Dir(self), name)
	if unix.Access(path, unix.X_OK) != nil {
		return otherwise
	}
	return path
}

// SeparatePrograms returns the directory of the program self if the launcher and the helper are files in it; otherwise "".
func SeparatePrograms(self string) string {
	if beside(self, launcherName, "") == "" || beside(self, helperName, "") == "" {
		return ""
	}
	return filepath.Dir(self)
}

// LauncherBeside returns the path of the launcher in the directory of the program self, which is the
// launcher too: self, if there is no other.
func LauncherBeside(self string) string { return beside(self, launcherName, self) }

// Close closes the programs. Nothing may be started afterwards.
func (r *Runtime) Close() { _ = errors.Join(r.launcher.Close(), r.helper.Close()) }

// NeedsLibraries reports whether the launcher or the helper is linked dynamically: then it
// cannot be executed in a sandbox that shows no libraries.
func (r *Runtime) NeedsLibraries() bool {
	return namesInterpreter(r.launcher) || namesInterpreter(r.helper)
}

// namesInterpreter reports whether a file is an ELF program that names an interpreter, which
// loads its libraries.
func namesInterpreter(program io.ReaderAt) bool {
	f, err := elf.NewFile(program)
	return err == nil && slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

// Status returns the backend in use. The first call probes the host, which
// takes a few milliseconds.
func (r *Runtime) Status() Status {
	r.probe.Do(func() { r.status = r.choose() })
	return r.status
}

// choose finds the first backend that works.
func (r *Runtime) choose() Status {
	if r.opts.Backend != Backends[0] {
		s := Status{Backend: r.opts.Backend, Reason: "it was asked for"}
		if writes(s.Backend) {
			results, _, err := r.Probe()
			if err != nil {
				s.Reason += "; " + err.Error()
			}
			for _, b := range results {
				if b.Name != s.Backend {
					continue
				}
				s.Redirects, s.Complete = b.Redirects, b.Works && complete(s.Backend)
				if s.Writes = b.Works; !b.Works {
					s.Reason += ", and does not work here (" + b.Reason + ")"
				}
			}
		}
		return s
	}
	results, _, err := r.probeWith("--probe-first")
	if err != nil {
		return Status{Backend: Backends[0], Reason: err.Error()}
	}
	var others []string
	for _, b := range results {
		if b.Works {
			reason := "it works here"
			if len(others) > 0 {
				reason = strings.Join(others, "; ")
			}
			// A later backend may accept a plan that this one refuses.
			if b.Name != Backends[1] {
				return Status{Backend: Backends[0], Reason: reason, Complete: complete(b.Name), Writes: writes(b.Name), Redirects: b.Redirects}
			}
			return Status{Backend: b.Name, Reason: reason, Complete: true, Writes: true, Redirects: b.Redirects}
		}
		others = append(others, b.Name+" does not work here ("+b.Reason+")")
	}
	others = append(others, "requests that need a sandbox will be refused")
	return Status{Backend: Backends[0], Reason: strings.Join(others, "; ")}
}

// complete reports whether a backend enforces every plan where it works.
func complete(backend string) bool { return backend == "namespaces" || backend == "bwrap" }

// writes reports whether a backend enforces the usual plans where it works.
func writes(backend string) bool { return complete(backend) || backend == "broker" }

// ProbeResult reports whether a backend works on this host.
type ProbeResult struct {
	Name   string
	Works  bool
	Reason string // if it does not
	// Redirects means that it works, and can do what Confinement.Redirect requests.
	Redirects bool
	// Step is the step of making the sandbox that failed, and Errno the kernel's error; 0: another error.
	Step  string
	Errno syscall.Errno
}

// Steps of the backend namespaces, as the launcher reports them.
const (
	StepClone  = "clone"  // make the namespaces
	StepMap    = "map"    // map the user into the user namespace
	StepMount  = "mount"  // make the view of the file system
	StepFilter = "filter" // install the seccomp filter
)

// Probe has the launcher try every backend. It also returns the kernel's version of Landlock; 0: none.
func (r *Runtime) Probe() (results []ProbeResult, landlock int, err error) {
	return r.probeWith("--probe")
}

func (r *Runtime) probeWith(option string) (results []ProbeResult, landlock int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, firstFile, "--self-fd", "3", option)
	cmd.Args[0], cmd.Env, cmd.ExtraFiles = launcherName, r.env, []*os.File{r.launcher}
	text, err := r.opts.Output(cmd)
	if err != nil {
		return nil, 0, fmt.Errorf("probe the sandbox: %w", err)
	}
	var answer struct {
		Backends []ProbeResult
		Landlock int
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, 0, fmt.Errorf("probe the sandbox: %w", err)
	}
	return answer.Backends, answer.Landlock, nil
}

// firstFile is the path of the launcher for a child whose first extra
// descriptor it is. The descriptor's number in this process is not used,
// because the child may have another file at that number.
const firstFile = "/proc/self/fd/3"

// Command is a prepared start of the launcher.
type Command struct {
	Argv  []string // the program to execute, and its arguments
	Arg0  string   // its name for itself
	Env   []string
	Files []*os.File // its descriptors 3 and up

	// Refusal contains, after the launcher has ended, the reason why it could
	// not make the sandbox of a process: see ReadRefusal. The command cannot
	// write there. The caller closes it; nil for the file system helper.
	Refusal *os.File

	// Egress is a socket for messages of pkg/sandbox/transparent, if the confinement
	// requests them and the backend can send them. The caller closes it; otherwise it is
	// nil.
	Egress *os.File

	memory []*os.File
}

// maxRefusal bounds the part of a refusal that is read: it names a few paths.
const maxRefusal = 8 << 10

// ReadRefusal returns why an ended launcher could not make a sandbox; empty: it could.
func ReadRefusal(f *os.File) string {
	text, _ := io.ReadAll(io.NewSectionReader(f, 0, maxRefusal))
	return strings.ToValidUTF8(string(text), "\uFFFD")
}

// Close closes the command's descriptors, once it has been started.
func (c *Command) Close() {
	for _, f := range c.memory {
		_ = f.Close()
	}
}

// Standby prepares a launcher that waits for the arguments and the descriptors of a
// Command (pkg/host/warmstart). The number of its socket follows as the last argument.
func (r *Runtime) Standby() *Command {
	return &Command{
		Argv: []string{firstFile, "--self-fd", "3", "--standby-fd"},
		Arg0: launcherName, Env: r.env, Files: []*os.File{r.launcher},
	}
}

// Janitor prepares a janitor. Its socket follows as the next descriptor.
func (r *Runtime) Janitor() *Command {
	return &Command{
		Argv: []string{firstFile, "--self-fd", "3", "--janitor-socket-fd", "4"},
		Arg0: launcherName, Env: r.env, Files: []*os.File{r.launcher},
	}
}

// Process prepares a command with an environment. Arg0 is the command's name
// for itself; nil: argv[0].
func (r *Runtime) Process(in Confinement, argv []string, arg0 *string, env []string) (*Command, error) {
	c, args, err := r.begin(in, true)
	if err != nil {
		return nil, err
	}
	var text []byte
	for _, kv := range env {
		text = append(append(text, kv...), 0)
	}
	n, err := c.remember("environment", text)
	if err != nil {
		c.Close()
		return nil, err
	}
	args = append(args, "--env-fd", n)
	if n, err = c.remember("refusal", nil); err != nil {
		c.Close()
		return nil, err
	}
	args = append(args, "--refusal-fd", n)
	if r.opts.Tasks != nil {
		if most := r.opts.Tasks(); most > 0 {
			args = append(args, "--tasks", strconv.FormatUint(most, 10))
		}
	}
	last := len(c.memory) - 1
	c.Refusal, c.memory = c.memory[last], c.memory[:last]
	if in.Redirect && in.ManagedNetwork {
		if n, err = c.redirect(); err != nil {
			_ = c.Refusal.Close()
			c.Close()
			return nil, err
		}
		args = append(args, "--egress-fd", n)
	}
	if arg0 != nil {
		args = append(args, "--argv0="+*arg0)
	}
	c.Argv = append(append(args, "--"), argv...)
	return c, nil
}

// redirect makes the socket of Egress and returns the number of the launcher's end.
func (c *Command) redirect() (string, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("make a socket for connections: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "connections")
	c.Egress, c.memory = os.NewFile(uintptr(pair[0]), "connections"), append(c.memory, theirs)
	c.Files = append(c.Files, theirs)
	return strconv.Itoa(2 + len(c.Files)), nil
}

// helperOption tells the launcher that the program to start is the file system helper.
const helperOption = "--trusted-helper"

// FileHelper prepares the file system helper, which never gets the network,
// whatever the profile says.
func (r *Runtime) FileHelper(in Confinement) (*Command, error) {
	in.Profile.Network, in.ManagedNetwork = 0, false
	c, args, err := r.begin(in, true)
	if err != nil {
		return nil, err
	}
	c.Files = append(c.Files, r.helper)
	n := strconv.Itoa(2 + len(c.Files))
	c.Argv = append(args, helperOption, "--exec-fd", n, "--", helperName)
	return c, nil
}

// begin prepares the launcher's arguments up to the command. With janitor it gets a connection
// to one, if the command may write.
func (r *Runtime) begin(in Confinement, janitor bool) (*Command, []string, error) {
	if err := in.Profile.CheckText(); err != nil {
		return nil, nil, err
	}
	c := &Command{Arg0: launcherName, Env: r.env, Files: []*os.File{r.launcher}}
	args := []string{firstFile, "--self-fd", "3",
		"--sandbox-policy-cwd", in.PolicyCwd, "--command-cwd", in.CommandCwd, "--backend", r.opts.Backend}
	profile := in.Profile.AppendJSON(nil)
	if len(profile) <= maxArgument {
		args = append(args, "--permission-profile", string(profile))
	} else {
		n, err := c.remember("profile", profile)
		if err != nil {
			return nil, nil, err
		}
		args = append(args, "--permission-profile-fd", n)
	}
	if janitor && !in.Reading && in.Profile.FileSystem.Writes() && r.opts.Janitor != nil {
		if f := r.opts.Janitor(); f != nil {
			c.memory, c.Files = append(c.memory, f), append(c.Files, f)
			args = append(args, "--janitor-fd", strconv.Itoa(2+len(c.Files)))
		}
	}
	if r.opts.Stricter {
		args = append(args, "--stricter")
	}
	if r.opts.NoLocalSockets {
		args = append(args, "--no-local-sockets")
	}
	if in.Reading {
		args = append(args, "--reading")
	}
	if in.Within != "" {
		args = append(args, "--within", in.Within)
	}
	switch {
	case in.ManagedNetwork:
		args = append(args, "--allow-network-for-proxy")
		if in.ProxyPorts != nil {
			args = append(args, "--proxy-ports="+portList(in.ProxyPorts))
		}
		if in.UnixSockets {
			args = append(args, "--allow-unix-sockets")
		}
	case in.LegacyLandlock:
		args = append(args, "--use-legacy-landlock")
	}
	return c, args, nil
}

// portList is the value of the launcher's option --proxy-ports.
func portList(ports []uint16) string {
	var text []byte
	for i, n := range ports {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendUint(text, uint64(n), 10)
	}
	return string(text)
}

// remember puts data into memory that the launcher inherits, and returns the
// number of its descriptor there.
func (c *Command) remember(name string, data []byte) (string, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return "", fmt.Errorf("pass the %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	c.memory = append(c.memory, f)
	if len(data) > 0 {
		if _, err := f.WriteAt(data, 0); err != nil {
			return "", fmt.Errorf("pass the %s: %w", name, err)
		}
	}
	c.Files = append(c.Files, f)
	return strconv.Itoa(2 + len(c.Files)), nil
}
