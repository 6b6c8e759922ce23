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

// Cmd is a command on the server, used like an exec.Cmd: fill in the fields, then call Run,
// Output, or Start and Wait. It runs once. Like an exec.Cmd it is not for concurrent use,
// except that the pipes and the methods of Process may be used from other goroutines.
//
// The command survives a lost connection if the client does: its output is delivered
// afterwards.
type Cmd struct {
	// Path is the program: a path of the server, or a name that the server
	// looks up in the PATH of the command's environment.
	Path string
	// Args are the arguments, beginning with the name that the command sees as its own; empty:
	// Path alone.
	Args []string
	// Env is the environment as NAME=VALUE; the last value of a name counts. With an EnvPolicy
	// it is added to the variables that the policy selects. Nil without an EnvPolicy: the
	// server's environment, except variables whose names suggest a secret (see
	// EnvPolicy.IgnoreDefaultExcludes).
	Env       []string
	EnvPolicy *execproto.EnvPolicy
	// Dir is the working directory: an absolute path of the server or a `file:` URI. Empty:
	// the server's own, or its root directory if the server does not report its own.
	Dir string

	// Stdin is the command's input; nil: empty or, with TTY, the data of StdinPipe and
	// Process.Write. A goroutine copies it, and ends the command's input at its end. Codex
	// CLI's servers cannot end the input of a pipe (see Process.CloseStdin): there a command
	// that reads to the end waits. Their terminals get the end-of-file character.
	Stdin io.Reader
	// Stdout and Stderr get the command's output; nil: it is dropped. If they are equal, one
	// goroutine writes in the order of the output; otherwise each has a goroutine of its own.
	// A Write that blocks holds back this command only. If a Write fails, the rest of its
	// stream is dropped, and Wait returns the error.
	Stdout, Stderr io.Writer

	// TTY gives the command a terminal of size Size, or of 24 rows and 80 columns. Its output
	// goes to Stdout.
	TTY  bool
	Size *execproto.TerminalSize
	// Arg0 is the name that the command sees as its own, if not Args[0].
	Arg0 string
	// Sandbox confines the command: the sandbox object of the protocol, for instance from
	// ReadOnlySandbox. A server that cannot enforce it refuses to start the command.
	Sandbox json.RawMessage
	// EnforceManagedNetwork restricts the command to managed network proxies.
	EnforceManagedNetwork bool
	// Limits bound the resources of the command and its descendants; see Process.Limits. A
	// server without the extension process/limits ignores them unless they are required: then
	// Start returns ErrNoLimits.
	Limits *execproto.ProcessLimits

	// Process is the started command.
	Process *Process
	// ExitState is set by Wait.
	ExitState *ExitState

	client  *Client
	ctx     context.Context // set by CommandContext
	started bool
	waited  bool
	in      *stdinPipe  // set by StdinPipe
	out     *outputPipe // set by StdoutPipe
	err     *outputPipe // set by StderrPipe
	run     *cmdRun     // set by Start
}

// Command returns a command that runs a program with arguments on the server.
func (c *Client) Command(name string, arg ...string) *Cmd {
	return c.CommandContext(context.Background(), name, arg...)
}

// CommandContext is Command with a context: if it ends before the command has, the command
// is killed with its descendants, and Wait's error matches that of the context.
func (c *Client) CommandContext(ctx context.Context, name string, arg ...string) *Cmd {
	return &Cmd{Path: name, Args: append([]string{name}, arg...), client: c, ctx: ctx}
}

// String returns the program and its arguments, for printing.
func (c *Cmd) String() string {
	if len(c.Args) == 0 {
		return c.Path
	}
	return strings.Join(append([]string{c.Path}, c.Args[1:]...), " ")
}

// Run starts the command and waits for it. The error is nil if the exit code is 0 and all
// input and output was copied.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the command and returns its standard output. An *ExitError has the beginning and
// the end of its standard error, unless Stderr was set.
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

// CombinedOutput runs the command and returns its standard output and standard error, in the
// order in which the server read them.
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

// Start starts the command and returns when the server has started it. An error of the server,
// such as a missing program, is a *ServerError. After a success the caller must call Wait.
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

// params returns the params of process/start.
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

// completePolicy fills in the members that servers require.
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

// environment converts a list of NAME=VALUE into a map.
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

// directory returns the working directory for the request.
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

// pathOf converts an absolute path into a file URI, which all servers accept. Other paths are
// sent unchanged, and the server validates them.
func pathOf(native string) string {
	if !strings.HasPrefix(native, "/") {
		return native
	}
	return pathuri.Format(path.Clean(native))
}

// ExitError is the error of a command whose exit code is not 0. It matches ErrSandboxDenied if
// the sandbox probably caused it, and the context's error if the end of the context killed the
// command.
type ExitError struct {
	ExitState
	// Stderr is the beginning and the end of the command's standard error, if Output collected
	// it.
	Stderr []byte

	cause error // error of the context that ended the command; nil: no context did
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
