package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/cmd/codex/cli/sandbox"
	"codex.internal/pkg/approval"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/terminal"
	"codex.internal/pkg/wire/pathuri"
)

// errReplay is the reason not to retry a denied command that has read much input.
var errReplay = fmt.Errorf("it read more than %d KiB of input, which is too much to keep for a retry", maxReplay>>10)

// execution is a job together with its attempts.
type execution struct {
	x      *remoteExec
	job    job
	id     string // id of the processes, without the attempt number
	params execproto.StartParams
	report report
	feed   feed
	last   *attempt // nil: no attempt yet
}

// do makes the attempts of a job and returns its exit code.
func (x *remoteExec) do(ctx context.Context, j job) (int, error) {
	e := &execution{x: x, job: j, feed: feed{in: x.input}}
	e.report = report{out: x.s.RawOut, err: x.s.RawErr, json: x.json, written: &x.written}
	switch {
	case x.json:
		e.report.out = x.s.Out // also with --json: control characters in the output would control a terminal
	case j.out != nil:
		e.report.out = j.out
	}
	e.params, e.id = x.params(j)
	run, d := approval.Begin(x.request(j), x.rules, &x.approved)
	for {
		var err error
		switch d.Step {
		case approval.Ask:
			var a approval.Answer
			if a, err = e.answer(ctx, d.Question); err == nil {
				d = run.Answer(a)
			}
		case approval.Start:
			var result approval.Result
			if result, err = e.attempt(ctx, d); err == nil {
				d, err = e.judge(run, result)
			}
		case approval.Done:
			return e.done(d), nil
		default:
			return e.refused(d)
		}
		if err != nil {
			return 0, err
		}
	}
}

// attempt makes one attempt.
func (e *execution) attempt(ctx context.Context, d approval.Decision) (approval.Result, error) {
	if d.Remembered {
		if err := e.approval("session", "session"); err != nil {
			return approval.Result{}, err
		}
	}
	if d.Retry {
		if d.Remembered {
			e.say("retrying without the sandbox, as approved for this session")
		}
		if err := e.report.emit(execEvent{Type: "retry"}); err != nil {
			return approval.Result{}, err
		}
		// The command has exited. This ends its descendants that continue to run, as Codex CLI does.
		_, _ = e.last.p.Load().Terminate(ctx)
		e.params = approval.RetryParams(e.params, e.id)
		if e.params.TTY {
			e.params.Size = e.x.screen.size()
		}
	}
	e.report.attempt++
	e.last = &attempt{x: e.x, params: e.params, report: &e.report, feed: &e.feed, secret: e.job.secret, asked: e.job.asked}
	result, err := e.last.run(ctx)
	e.x.caught = syscall.Signal(e.last.caught.Load())
	if err == nil {
		err = e.last.limitError(result.ExitCode)
	}
	return result, err
}

// judge decides what to do after an attempt.
func (e *execution) judge(run *approval.Run, result approval.Result) (approval.Decision, error) {
	d := run.Result(result)
	if d.Step != approval.Done && e.feed.more {
		d = approval.Decision{Step: approval.Done, Result: result, Why: errReplay}
	}
	if !result.Denied {
		return d, nil
	}
	event := execEvent{Type: "denied", ExitCode: &result.ExitCode}
	if d.Why != nil {
		event.Reason = e.why(d.Why)
	}
	return d, e.report.emit(event)
}

// why returns the reason not to retry, in words for the user.
func (e *execution) why(err error) string {
	if errors.Is(err, approval.ErrPolicy) {
		return e.x.silent
	}
	return err.Error()
}

// done reports the final result and returns the exit code.
func (e *execution) done(d approval.Decision) int {
	switch {
	case d.Why == nil:
		if e.last != nil && e.last.offline != "" {
			e.say(e.last.offline)
		}
		return d.Result.ExitCode
	case !e.x.approves:
		e.say(e.denied())
		return d.Result.ExitCode
	default:
		e.say(fmt.Sprintf("the server's sandbox blocked the command (exit code %d); it is not run again without the sandbox: %s", d.Result.ExitCode, e.why(d.Why)))
		if len(e.last.refused) > 0 {
			e.say(e.denied())
		}
		if e.last.unenforced {
			e.say(e.denied())
		} else {
			e.x.hint(e.x.policy.Wider())
		}
		return cmdutil.ExitDenied
	}
}

// denied describes what the sandbox denied, if the server has reported it.
func (e *execution) denied() string {
	if e.last.unenforced {
		return "the server cannot set up this sandbox, and the command did not run; codex doctor on the server shows what is missing"
	}
	if e.last.offline != "" {
		return e.last.offline
	}
	if len(e.last.refused) == 0 {
		return "the sandbox on the server probably denied it; " + e.x.policy.Wider()
	}
	return sandbox.RefusedHosts(e.last.refused, e.x.endpoints, e.x.private)
}

// refused reports that the command does not run.
func (e *execution) refused(d approval.Decision) (int, error) {
	switch {
	case !errors.Is(d.Err, approval.ErrRejected):
		return 0, d.Err
	case e.x.console == nil:
		e.say("the command was not run, because no user can be asked: " + e.x.silent)
	default:
		e.say(d.Err.Error())
	}
	return cmdutil.ExitDenied, nil
}

// answer gets the answer to a question from the session's rules or the user.
func (e *execution) answer(ctx context.Context, q approval.Question) (approval.Answer, error) {
	switch {
	case e.x.yes && q.Retry:
		e.say(fmt.Sprintf("the server's sandbox blocked the command (exit code %d); retrying without the sandbox (--yes)", q.ExitCode))
		return approval.Once, e.approval("once", "--yes")
	case e.x.yes:
		return approval.Once, e.approval("once", "--yes")
	case e.x.console == nil:
		return approval.Deny, e.approval("no", "nobody")
	}
	show := cmdutil.HoldMessages(e.x.s.Err)
	a, err := e.x.console.ask(ctx, e.question(q))
	show()
	switch {
	case errors.Is(err, errSmallTerminal):
		e.say(err.Error())
		return approval.Deny, e.approval("no", "nobody")
	case err != nil:
		return approval.Deny, err
	}
	word := "no"
	switch a {
	case approval.Once:
		word = "once"
	case approval.ForSession:
		word = "session"
	}
	return a, e.approval(word, "user")
}

func (e *execution) approval(answer, by string) error {
	return e.report.emit(execEvent{Type: "approval", Answer: answer, By: by})
}

// question returns the question to show to the user.
func (e *execution) question(q approval.Question) question {
	asked := question{
		facts:   []string{"sandbox: " + e.x.policy.Name(), placeOf(e.x.environment, e.job.cwd)},
		command: shellCommand(e.job.asked),
		ask:     "Run the command?",
	}
	if q.Retry {
		asked.facts[0] = fmt.Sprintf("sandbox: the command was blocked by the server's sandbox (exit code %d)", q.ExitCode)
		for _, refused := range e.last.refused {
			asked.facts = append(asked.facts, "  network: refused "+refused.String())
		}
		asked.ask = "Command failed; retry without sandbox?"
	}
	return asked
}

// placeOf returns the line of a question that names where the command runs; cwd is a URI.
func placeOf(environment, cwd string) string {
	dir, err := pathuri.Parse(cwd, "")
	if err != nil {
		dir = cwd
	}
	return "  environment: " + terminal.Literal(environment) + "   cwd: " + shellQuote(dir)
}

// say prints a note for the user.
func (e *execution) say(text string) { e.x.say(text) }

// say prints a note for the user. It may be called from any goroutine.
func (x *remoteExec) say(text string) {
	_, _ = io.WriteString(x.s.Err, "codex: "+terminal.Text(text)+"\n")
}

// hint prints a line of advice for the user.
func (x *remoteExec) hint(text string) {
	_, _ = io.WriteString(x.s.Err, "hint: "+terminal.Text(text)+"\n")
}

// shellCommand quotes a command so that a shell runs the same command.
func shellCommand(argv []string) string {
	quoted := make([]string, len(argv))
	for i, arg := range argv {
		quoted[i] = shellQuote(arg)
	}
	return strings.Join(quoted, " ")
}

// shellQuote quotes a word for a shell if it needs quotes. Characters that a terminal hides or
// that reorder its text are escaped.
func shellQuote(word string) string {
	plain := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_@%+=:,./-", r))
	}
	switch {
	case word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0:
		return word
	case terminal.Literal(word) == word:
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for rest := word; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		char := rest[:size]
		rest = rest[size:]
		switch {
		case char == "'" || char == `\`:
			b.WriteString(`\` + char)
		case terminal.Literal(char) == char:
			b.WriteString(char)
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, char[0])
		case r < utf8.RuneSelf && strings.ContainsRune("\n\r\t", r):
			b.WriteString(terminal.Text(char))
		case r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteString("'")
	return b.String()
}
