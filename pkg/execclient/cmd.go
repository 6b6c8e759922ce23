package execclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"strconv"
	"strings"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/pathuri"
	"github.com/google/uuid"
)

// Cmd is a command that runs on the server, used as an exec.Cmd is: fill in
// the fields, then Run, Output, or Start and Wait. It runs once. Like an
// exec.Cmd it is not for concurrent use, except that Cancel, the pipes and the
// methods of Process may be used from other goroutines.
//
// The command outlives a lost connection if the client does: what it printed
// meanwhile is delivered afterwards.
type Cmd struct {
	// Path is the program: a path of the server, or a name that the server
	// looks up in the PATH of the command's environment.
	Path string
	// Args are the arguments, the first of them what the command sees as its
	// own name; empty: Path alone.
	Args []string
	// Env is the environment, NAME=VALUE each, of which the last of a name
	// counts. With an EnvPolicy it is laid over what that lets through. Nil,
	// without an EnvPolicy: the server's environment but for what holds
	// secrets by its name (see EnvPolicy.IgnoreDefaultExcludes).
	Env       []string
	EnvPolicy *execproto.EnvPolicy
	// Dir is where the command runs: an absolute path of the server or a
	// `file:` URI. Empty: where the server runs, or its root directory if the
	// server does not tell.
	Dir string

	// Stdin is what the command reads; nil: nothing, or with TTY whatever
	// StdinPipe or Process.Write send. A goroutine copies it. When it has
	// ended so does the command's input; codex's own servers cannot do that
	// to a pipe (see Process.CloseStdin), so there a command that reads to
	// the end of its input waits, and on a terminal they are sent the end of
	// file character.
	Stdin io.Reader
	// Stdout and Stderr get what the command writes; nil: it is dropped. If
	// they are the same, one goroutine at a time calls Write, in the order of
	// the output; otherwise each has a goroutine of its own. A Write that
	// blocks holds back this command and nothing else. One that fails is the
	// error of Wait, and what follows on that stream is dropped.
	Stdout, Stderr io.Writer

	// TTY gives the command a terminal, of Size or of 24 rows and 80 columns.
	// Its output is Stdout's.
	TTY  bool
	Size *execproto.TerminalSize
	// Arg0 is what the command sees as its name, if not Args[0].
	Arg0 string
	// Sandbox confines the command: the protocol's sandbox object, for
	// instance from ReadOnlySandbox. A server that cannot enforce it refuses
	// to start the command.
	Sandbox json.RawMessage
	// EnforceManagedNetwork leaves the network to managed proxies alone.
	EnforceManagedNetwork bool
	// Limits bound what the command and its descendants use; see Process.Limits. A
	// server without the extension process/limits ignores them, unless they are
	// required: then Start returns ErrNoLimits.
	Limits *execproto.ProcessLimits

	// Process is the started command.
	Process *Process
	// ExitState is how it ended, after Wait.
	ExitState *ExitState

	client  *Client
	ctx     context.Context // of CommandContext
	started bool
	waited  bool
	in      *stdinPipe  // of StdinPipe
	out     *outputPipe // of StdoutPipe
	err     *outputPipe // of StderrPipe
	run     *cmdRun     // of Start
}

// Command returns a command that runs the program name with those arguments on
// the server.
func (c *Client) Command(name string, arg ...string) *Cmd {
	return c.CommandContext(context.Background(), name, arg...)
}

// CommandContext is Command with a context: if it ends before the command has, the command
// is killed with its descendants, and Wait's error matches that of the context.
func (c *Client) CommandContext(ctx context.Context, name string, arg ...string) *Cmd {
	return &Cmd{Path: name, Args: append([]string{name}, arg...), client: c, ctx: ctx}
}

// String returns the program and its arguments, for people to read.
func (c *Cmd) String() string {
	if len(c.Args) == 0 {
		return c.Path
	}
	return strings.Join(append([]string{c.Path}, c.Args[1:]...), " ")
}

// Run starts the command and waits for it. The error is nil if the command
// ended with 0 and its input and output were copied.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the command and returns what it wrote to its standard output. An
// *ExitError has the beginning and the end of what it wrote to standard error,
// unless Stderr was set.
func (c *Cmd) Output() ([]byte, error) {
	if c.Stdout != nil || c.out != nil {
		return nil, errors.New("execclient: Stdout already set")
	}
	var stdout bytes.Buffer
	c.Stdout = &stdout
	var stderr *clippedBuffer
	if c.Stderr == nil && c.err == nil {
		stderr = &clippedBuffer{}
		c.Stderr = stderr
	}
	err := c.Run()
	var exit *ExitError
	if stderr != nil && errors.As(err, &exit) {
		exit.Stderr = stderr.Bytes()
	}
	return stdout.Bytes(), err
}

// CombinedOutput runs the command and returns what it wrote to its standard
// output and standard error, in the order in which the server saw it.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	switch {
	case c.Stdout != nil || c.out != nil:
		return nil, errors.New("execclient: Stdout already set")
	case c.Stderr != nil || c.err != nil:
		return nil, errors.New("execclient: Stderr already set")
	}
	var both bytes.Buffer
	c.Stdout, c.Stderr = &both, &both
	err := c.Run()
	return both.Bytes(), err
}

// Start starts the command and returns when the server has done so. An error
// of the server, such as that there is no such program, is a *ServerError.
// After a success Wait must be called.
func (c *Cmd) Start() error {
	if c.started {
		return errors.New("execclient: already started")
	}
	c.started = true
	p, err := c.start()
	if err != nil {
		c.closePipes()
		return err
	}
	c.Process = p
	c.run = startRun(c)
	return nil
}

func (c *Cmd) start() (*Process, error) {
	if c.Path == "" {
		return nil, errors.New("execclient: no command")
	}
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	params, err := c.params()
	if err != nil {
		return nil, err
	}
	return c.client.Start(c.ctx, params)
}

// params is the request that starts the command.
func (c *Cmd) params() (execproto.StartParams, error) {
	p := execproto.StartParams{
		ProcessID: uuid.NewString(), Argv: []string{c.Path}, TTY: c.TTY, Size: c.Size,
		PipeStdin: !c.TTY && (c.Stdin != nil || c.in != nil),
		EnvPolicy: c.EnvPolicy, Sandbox: c.Sandbox, EnforceManagedNetwork: c.EnforceManagedNetwork, Limits: c.Limits,
	}
	if len(c.Args) > 0 {
		p.Argv = append(p.Argv, c.Args[1:]...)
		if c.Args[0] != c.Path {
			p.Arg0 = &c.Args[0]
		}
	}
	if c.Arg0 != "" {
		p.Arg0 = &c.Arg0
	}
	if c.Env == nil && c.EnvPolicy == nil {
		p.EnvPolicy = &execproto.EnvPolicy{Inherit: "all"}
	}
	if p.EnvPolicy != nil {
		p.EnvPolicy = completePolicy(*p.EnvPolicy)
	}
	var err error
	if p.Env, err = environment(c.Env); err != nil {
		return p, err
	}
	p.Cwd, err = c.directory()
	return p, err
}

// completePolicy has the members that servers insist on.
func completePolicy(p execproto.EnvPolicy) *execproto.EnvPolicy {
	if p.Inherit == "" {
		p.Inherit = "all"
	}
	p.Exclude = append([]string{}, p.Exclude...)
	p.IncludeOnly = append([]string{}, p.IncludeOnly...)
	set := maps.Clone(p.Set)
	if set == nil {
		set = map[string]string{}
	}
	p.Set = set
	return &p
}

// environment is a list of NAME=VALUE as requests have it.
func environment(list []string) (map[string]string, error) {
	env := make(map[string]string, len(list))
	for _, kv := range list {
		name, value, ok := strings.Cut(kv, "=")
		switch {
		case !ok || name == "":
			return nil, fmt.Errorf("execclient: environment entry %q is not NAME=VALUE", kv)
		case strings.Contains(kv, "\x00"):
			return nil, fmt.Errorf("execclient: environment variable %q contains NUL", name)
		}
		env[name] = value
	}
	return env, nil
}

// directory is the command's directory as requests have it.
func (c *Cmd) directory() (string, error) {
	if c.Dir != "" {
		return pathOf(c.Dir), nil
	}
	info := c.client.info.EnvironmentInfo
	if info == nil {
		asked, err := c.client.EnvironmentInfo(c.ctx)
		if err != nil {
			return "", fmt.Errorf("execclient: ask for the server's directory: %w", err)
		}
		info = &asked
	}
	if info.Cwd == "" {
		return "file:///", nil
	}
	return info.Cwd, nil
}

// pathOf makes a file URI of an absolute path with slashes, which all servers accept.
// Anything else is passed through for the server to validate.
func pathOf(native string) string {
	if !strings.HasPrefix(native, "/") {
		return native
	}
	return pathuri.Format(path.Clean(native))
}

// ExitError says that a command did not end with 0. It matches
// ErrSandboxDenied if its sandbox probably denied the command something, and
// the context's error if the command was killed because its context ended.
type ExitError struct {
	ExitState
	// Stderr is the beginning and the end of what the command wrote to
	// standard error, if Output collected it.
	Stderr []byte

	cause error // of the context that ended it; nil: it ended by itself
}

func (e *ExitError) Error() string {
	text := "exit status " + strconv.Itoa(e.Code)
	if e.SandboxDenied {
		text += ", which the sandbox probably caused"
	}
	if e.Cause != "" && e.Cause != execproto.CauseExit && e.Cause != execproto.CauseSignal {
		text += " (" + string(e.Cause) + ")"
	}
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// ExitCode returns the exit code: the status, or 128+n after signal n.
func (e *ExitError) ExitCode() int { return e.Code }

// Is reports whether target is ErrSandboxDenied and the sandbox denied it.
func (e *ExitError) Is(target error) bool { return target == ErrSandboxDenied && e.SandboxDenied }

// Unwrap returns the error of the context that ended the command, if one did.
func (e *ExitError) Unwrap() error { return e.cause }
