package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/sandbox/permissions"
)

// ErrInput means that a denied command cannot be retried, because its first attempt has read
// input that cannot be read again: its Stdin is not an io.Seeker.
var ErrInput = errors.New("its input was read by the first attempt, and cannot be read again")

// Commands runs commands of one client in a sandbox under a policy, and asks a person if the
// policy requires it:
//
//	commands := &approval.Commands{
//		Client: client, Profile: permissions.Workspace(), Dir: "/src",
//		Policy: approval.Policy{Kind: approval.OnFailure},
//		Ask: func(ctx context.Context, c *execclient.Cmd, q approval.Question) (approval.Answer, error) {
//			return askPerson(c.String(), q.Reason)
//		},
//	}
//	cmd := client.Command("make", "test")
//	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
//	err := commands.Run(ctx, cmd)
//
// Its fields must not be changed while it is used; Run may be called from any goroutine.
type Commands struct {
	Client *execclient.Client
	// Profile confines the first attempt of each command. Paths of it that are relative
	// to the workspace are below Dir.
	Profile permissions.Profile
	// Dir is the workspace: an absolute path of the server or a `file:` URI. Commands
	// without a directory of their own run there.
	Dir     string
	Policy  Policy
	Session Session
	// Ask asks a person about a command. If it returns an error, the command does not run, and
	// Run returns the error. Nil: every question is answered with Deny.
	Ask func(ctx context.Context, c *execclient.Cmd, q Question) (Answer, error)
}

// Run runs a command, at most twice, and returns the error of its last attempt, as Cmd.Run
// does. If the command was not run, or not retried, because of an answer or the policy, the
// error matches ErrRejected or another error of this package; after a denial it also matches
// execclient.ErrSandboxDenied.
//
// cmd is only a description: it is not run itself, and its Sandbox is not used. A retry reads
// Stdin again from the position at which the first attempt began.
func (c *Commands) Run(ctx context.Context, cmd *execclient.Cmd) error {
	sandbox := execclient.ProfileSandbox(c.Profile, c.Dir)
	request := Request{Argv: append([]string{cmd.Path}, cmd.Args...), Cwd: cmd.Dir, TTY: cmd.TTY, Sandbox: string(sandbox), Profile: c.Profile}
	if request.Cwd == "" {
		request.Cwd = c.Dir
	}
	var last error
	input := startOf(cmd.Stdin)
	run, d := Begin(request, c.Policy, &c.Session)
	for {
		switch d.Step {
		case Ask:
			answer, err := c.ask(ctx, cmd, d.Question)
			if err != nil {
				return errors.Join(err, last)
			}
			d = run.Answer(answer)
		case Start:
			if d.Retry {
				if err := input.rewind(); err != nil {
					return errors.Join(err, last)
				}
			}
			last = c.attempt(ctx, cmd, sandbox, d.Sandboxed)
			result, final := resultOf(last)
			if final {
				return last
			}
			d = run.Result(result)
		case Refuse:
			return errors.Join(d.Err, last)
		default:
			if last != nil && d.Why != nil {
				return fmt.Errorf("%w (%w)", last, d.Why)
			}
			return last
		}
	}
}

func (c *Commands) ask(ctx context.Context, cmd *execclient.Cmd, q Question) (Answer, error) {
	if c.Ask == nil {
		return Deny, nil
	}
	return c.Ask(ctx, cmd, q)
}

// attempt runs the command once.
func (c *Commands) attempt(ctx context.Context, cmd *execclient.Cmd, sandbox json.RawMessage, sandboxed bool) error {
	try := c.Client.CommandContext(ctx, cmd.Path)
	try.Args, try.Env, try.EnvPolicy, try.Dir = cmd.Args, cmd.Env, cmd.EnvPolicy, cmd.Dir
	try.Stdin, try.Stdout, try.Stderr = cmd.Stdin, cmd.Stdout, cmd.Stderr
	try.TTY, try.Size, try.Arg0 = cmd.TTY, cmd.Size, cmd.Arg0
	if try.Dir == "" {
		try.Dir = c.Dir
	}
	if sandboxed {
		try.Sandbox, try.EnforceManagedNetwork = sandbox, cmd.EnforceManagedNetwork
	}
	return try.Run()
}

// resultOf returns the result of an attempt. final means that it did not end with an exit code
// of its own: then its error is the error of Run.
func resultOf(err error) (r Result, final bool) {
	var exit *execclient.ExitError
	switch {
	case err == nil:
		return Result{}, false
	case errors.As(err, &exit):
		return Result{ExitCode: exit.ExitCode(), Denied: errors.Is(err, execclient.ErrSandboxDenied)}, false
	default:
		return Result{}, true
	}
}

// start is the position at which an attempt begins to read its input.
type start struct {
	in io.Reader
	at int64
	ok bool
}

func startOf(in io.Reader) start {
	s := start{in: in}
	if seeker, is := in.(io.Seeker); is {
		var err error
		s.at, err = seeker.Seek(0, io.SeekCurrent)
		s.ok = err == nil
	}
	return s
}

// rewind lets a second attempt read the same input.
func (s start) rewind() error {
	switch {
	case s.in == nil:
		return nil
	case !s.ok:
		return ErrInput
	}
	_, err := s.in.(io.Seeker).Seek(s.at, io.SeekStart)
	return err
}
