// Package approval decides whether a command may run, whether a person must be
// asked first, and whether it may run again without its sandbox if the sandbox
// denied it something.
//
// Commands runs commands of a client in this way. Below it, the package neither asks nor runs
// anything: a front end executes each decision and reports the outcome, until a decision is
// final:
//
//	run, d := approval.Begin(request, approval.Policy{Kind: approval.OnFailure}, session)
//	for {
//		switch d.Step {
//		case approval.Ask:
//			d = run.Answer(askPerson(d.Question))
//		case approval.Start:
//			d = run.Result(execute(d.Sandboxed)) // at most twice
//		case approval.Done:
//			return d.Result, d.Why
//		case approval.Refuse:
//			return approval.Result{}, d.Err
//		}
//	}
//
// The front end makes the Result from the server's report about the process. ProcessID and
// RetryParams help to make the requests.
//
// In any order of calls, a command runs without its sandbox only if the policy allows it and a
// person has approved it, and never if its permissions deny reading a path. It is retried at
// most once.
//
// The rules are in docs/spec/client.md §8.
package approval

import (
	"errors"
	"fmt"
)

// The reasons for refusing a command, or for not retrying it after a denial.
var (
	// ErrRejected means that the person who was asked denied the command.
	ErrRejected = errors.New("rejected by user")
	// ErrTimedOut means that the person who was asked did not answer in time.
	ErrTimedOut = errors.New("nobody answered in time")
	// ErrDisallowed means that a person would have to be asked, and a granular
	// policy does not allow it.
	ErrDisallowed = errors.New("approval policy disallowed sandbox approval prompt")
	// ErrPolicy means that the policy allows no retry.
	ErrPolicy = errors.New("the approval policy allows no retry without the sandbox")
	// ErrDeniedReads means that the permissions deny reading a path, which only
	// the sandbox enforces.
	ErrDeniedReads = errors.New("its permissions deny reading some paths, and without the sandbox it could read them")
	// ErrOrder means that a method was called that the last decision did not
	// request: an error of the front end, which ends the run.
	ErrOrder = errors.New("approval: called out of order")
)

// Step is the front end's next step.
type Step uint8

// The steps. Done and Refuse end a run.
const (
	// Ask: show Decision.Question to a person, and call Run.Answer.
	Ask Step = iota + 1
	// Start: run the command as Decision.Sandboxed says, and call Run.Result.
	Start
	// Done: report Decision.Result. If the command was denied, Decision.Why is the reason for
	// which it is not retried.
	Done
	// Refuse: report Decision.Err.
	Refuse
)

// Decision is the next step of a run, and its reason.
type Decision struct {
	Step     Step
	Question Question // with Ask
	// Sandboxed, with Start, means that the command runs in its sandbox. It is also true for a
	// profile that confines nothing. Retry means that this is the second attempt: see
	// RetryParams.
	Sandboxed, Retry bool
	// Remembered says, with Start, that no person was asked because of an
	// approval for the session.
	Remembered bool
	Result     Result // with Done
	Why        error  // with Done; nil unless the result is a denial
	// Err is the reason for Refuse. Interrupt means that the person wants the caller to stop
	// altogether, and not only to skip this command.
	Err       error
	Interrupt bool
}

// Question is a question to a person.
type Question struct {
	// Reason is empty before the first attempt.
	Reason string
	// Retry means that a yes lets the command run without its sandbox now. Covers means that a
	// yes also permits a later attempt without the sandbox: if the sandbox denies the command
	// something, no further question is asked.
	Retry, Covers bool
	// ExitCode, with Retry, is the exit code of the denied attempt.
	ExitCode int
}

// reasonRetry is Codex CLI's reason for the question after a denial.
const reasonRetry = "command failed; retry without sandbox?"

// Answer is a person's answer to a Question. The zero value is Deny.
type Answer uint8

// The answers.
const (
	// Deny denies the command; the caller continues without it.
	Deny Answer = iota
	// Once approves this attempt.
	Once
	// ForSession approves this command, now and for the rest of the session.
	ForSession
	// Amend approves this attempt and adds a rule that allows similar commands.
	// The caller stores the rules: for the run it is the same as Once.
	Amend
	// Abort denies the command, and the caller should stop altogether.
	Abort
	// TimedOut means that there was no answer in time.
	TimedOut
)

// Result is the outcome of an attempt.
type Result struct {
	ExitCode int // -1 if it is not known
	// Denied means that the sandbox probably denied the process something.
	Denied bool
}

// state is the state of a run.
type state uint8

const (
	asking       state = iota + 1 // before the first attempt
	running                       // the first attempt
	askingAgain                   // before the second attempt
	runningAgain                  // the second attempt
	ended
)

// Run makes the decisions for one command. It is not safe for concurrent use.
type Run struct {
	policy   Policy
	session  *Session
	request  Request
	state    state
	approved bool // a person has approved the first attempt
}

// Begin starts a run and returns its first decision. Approvals for the session are
// looked up and stored in session, which may be nil.
func Begin(request Request, policy Policy, session *Session) (*Run, Decision) {
	r := &Run{policy: policy, session: session, request: request}
	switch {
	case !policy.asksFirst(!request.Profile.FileSystem.Unrestricted):
		return r, r.start(Decision{})
	case policy.Kind == Granular && !policy.SandboxPrompts:
		return r, r.refuse(ErrDisallowed)
	case session.Approved(request.Key()):
		r.approved = true
		return r, r.start(Decision{Remembered: true})
	}
	r.state = asking
	return r, Decision{Step: Ask, Question: Question{Covers: !policy.EachAttempt && r.mayRetry() == nil}}
}

// Answer handles the answer to the question and returns the next decision.
func (r *Run) Answer(a Answer) Decision {
	if r.state != asking && r.state != askingAgain {
		return r.refuse(fmt.Errorf("%w: Answer called without a preceding Ask decision", ErrOrder))
	}
	key := r.key()
	switch a {
	case ForSession:
		// If the session is full, the answer counts once.
		_ = r.session.Approve(key)
	case Once, Amend:
	case TimedOut:
		return r.refuse(ErrTimedOut)
	case Abort:
		d := r.refuse(ErrRejected)
		d.Interrupt = true
		return d
	default:
		return r.refuse(ErrRejected)
	}
	if r.state == askingAgain {
		return r.retry(Decision{})
	}
	r.approved = true
	return r.start(Decision{})
}

// Result handles the result of the attempt and returns the next decision.
func (r *Run) Result(result Result) Decision {
	switch r.state {
	case running:
	case runningAgain:
		// The result of the second attempt is final.
		r.state = ended
		return Decision{Step: Done, Result: result}
	default:
		return r.refuse(fmt.Errorf("%w: Result called without a preceding Start decision", ErrOrder))
	}
	var why error
	if result.Denied {
		if why = r.mayRetry(); why == nil {
			return r.denied(result)
		}
	}
	r.state = ended
	return Decision{Step: Done, Result: result, Why: why}
}

// denied decides after a denial for which a retry is possible.
func (r *Run) denied(result Result) Decision {
	switch {
	case r.approved && !r.policy.EachAttempt:
		return r.retry(Decision{})
	case r.session.Approved(r.retryKey()):
		return r.retry(Decision{Remembered: true})
	}
	r.state = askingAgain
	return Decision{Step: Ask, Question: Question{Reason: reasonRetry, Retry: true, ExitCode: result.ExitCode}}
}

// mayRetry returns nil if the command may run without its sandbox once a person
// approves it, else the reason why not.
func (r *Run) mayRetry() error {
	switch {
	case r.request.Profile.FileSystem.DeniesReads():
		return ErrDeniedReads
	case !r.policy.mayRetry():
		return fmt.Errorf("%w: it is %s", ErrPolicy, r.policy.Kind)
	default:
		return nil
	}
}

// key returns the key under which the session stores the answer to the current question.
func (r *Run) key() Key {
	if r.state == askingAgain {
		return r.retryKey()
	}
	return r.request.Key()
}

func (r *Run) retryKey() Key {
	k := r.request.Key()
	k.retry = r.policy.EachAttempt
	return k
}

func (r *Run) start(d Decision) Decision {
	r.state = running
	d.Step, d.Sandboxed = Start, true
	return d
}

func (r *Run) retry(d Decision) Decision {
	r.state = runningAgain
	d.Step, d.Retry = Start, true
	return d
}

func (r *Run) refuse(err error) Decision {
	r.state = ended
	return Decision{Step: Refuse, Err: err}
}
