// Package approval decides whether a command may run, whether somebody has to
// be asked first, and whether it may run again without its sandbox when that
// denied it something.
//
// It asks nobody and runs nothing. A front end does what a decision says and
// tells what came of it, until there is nothing left to do:
//
//	run, d := approval.Begin(request, approval.Policy{Kind: approval.OnFailure}, session)
//	for {
//		switch d.Step {
//		case approval.Ask:
//			d = run.Answer(askSomebody(d.Question))
//		case approval.Start:
//			d = run.Result(execute(d.Sandboxed)) // at most twice
//		case approval.Done:
//			return d.Result, d.Why
//		case approval.Refuse:
//			return approval.Result{}, d.Err
//		}
//	}
//
// A Detector makes the Result out of what the server tells of the process,
// ProcessID and RetryParams make the requests.
//
// Whatever a front end does, nothing runs outside of its sandbox unless its
// policy allows that and somebody has approved of it, a command whose
// permissions deny reading something never does, and nothing is retried twice.
package approval

import (
	"errors"
	"fmt"
)

// Why a command is refused, or is not retried after a denial.
var (
	// ErrRejected says that somebody was asked and said no.
	ErrRejected = errors.New("rejected by user")
	// ErrTimedOut says that somebody was asked and did not answer in time.
	ErrTimedOut = errors.New("nobody answered in time")
	// ErrDisallowed says that somebody would have to be asked, and a granular
	// policy does not allow it.
	ErrDisallowed = errors.New("approval policy disallowed sandbox approval prompt")
	// ErrPolicy says that the policy accepts every denial.
	ErrPolicy = errors.New("the approval policy allows no retry without the sandbox")
	// ErrDeniedReads says that the permissions deny reading something, which
	// nothing but the sandbox enforces.
	ErrDeniedReads = errors.New("its permissions deny reading some paths, and without the sandbox it could read them")
	// ErrLate says that the denial came after the Window in which it counts.
	ErrLate = errors.New("it was denied too long after its start")
	// ErrOrder says that a method was called that the last decision did not
	// ask for: an error of the front end, and the end of the run.
	ErrOrder = errors.New("approval: called out of order")
)

// Step is what to do next.
type Step uint8

// The steps. Done and Refuse are the last one of a run.
const (
	// Ask is to put Decision.Question to somebody and to call Run.Answer.
	Ask Step = iota + 1
	// Start is to run the command as Decision.Sandboxed says and to call
	// Run.Result.
	Start
	// Done is to report Decision.Result. If the command was denied, Why says
	// why it is not retried.
	Done
	// Refuse is to report Decision.Err.
	Refuse
)

// Decision is what to do next, and why.
type Decision struct {
	Step     Step
	Question Question // of Ask
	// Sandboxed says, with Start, whether the command keeps its sandbox; it is
	// true for a profile that confines nothing too. Retry says that this is
	// the second attempt: see RetryParams.
	Sandboxed, Retry bool
	// Remembered says, with Start, that nobody was asked because of an
	// approval for the session.
	Remembered bool
	Result     Result // of Done
	Why        error  // of Done, nil unless the result is a denial
	// Err belongs to Refuse. Interrupt says that whoever was asked wants the
	// caller to stop altogether, and not only to go without this command.
	Err       error
	Interrupt bool
}

// Question is what somebody is asked.
type Question struct {
	// Reason is empty before the first attempt.
	Reason string
	// Retry says that a yes lets the command run without its sandbox now.
	// Covers says that a yes lets it do so later, if the sandbox denies it
	// something, without another question.
	Retry, Covers bool
	// ExitCode is that of the denied attempt, with Retry.
	ExitCode int
}

// reasonRetry is the reference's reason for the question after a denial.
const reasonRetry = "command failed; retry without sandbox?"

// Answer is what somebody said to a Question. The zero value is a no.
type Answer uint8

// The answers.
const (
	// Deny is no; the caller goes on without the command.
	Deny Answer = iota
	// Once is yes for this command.
	Once
	// ForSession is yes for this command, now and whenever it comes again.
	ForSession
	// Amend is yes, with a rule that lets commands like this one run. Rules
	// are the caller's: to the run it is Once.
	Amend
	// Abort is no, and the caller should stop altogether.
	Abort
	// TimedOut is no answer.
	TimedOut
)

// Result is how an attempt ended; see Detector.
type Result struct {
	ExitCode int // -1 if it is not known
	// Denied says that the sandbox probably denied the process something.
	Denied bool
	// Late says that it did so outside of the Window in which that counts.
	Late bool
	// Failure is the server's text if the process failed instead of exiting.
	Failure string
}

// state is where a run is.
type state uint8

const (
	asking       state = iota + 1 // before the first attempt
	running                       // the first attempt
	askingAgain                   // whether there is to be a second one
	runningAgain                  // the second attempt
	ended
)

// Run is one command on its way through the decisions. It is not safe for
// concurrent use.
type Run struct {
	policy   Policy
	session  *Session
	request  Request
	state    state
	approved bool // somebody has approved of the first attempt
}

// Begin decides about a command under a policy. Approvals for the session are
// looked up and remembered there, which may be nil.
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

// Answer takes the answer to the question of the last decision.
func (r *Run) Answer(a Answer) Decision {
	if r.state != asking && r.state != askingAgain {
		return r.refuse(fmt.Errorf("%w: an answer to no question", ErrOrder))
	}
	key := r.key()
	switch a {
	case ForSession:
		// Without room it counts once: it is asked about again.
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

// Result takes how the attempt of the last decision ended.
func (r *Run) Result(result Result) Decision {
	switch r.state {
	case running:
	case runningAgain:
		// Whatever came of it is final.
		r.state = ended
		return Decision{Step: Done, Result: result}
	default:
		return r.refuse(fmt.Errorf("%w: a result of no attempt", ErrOrder))
	}
	why := error(nil)
	switch {
	case !result.Denied:
	case result.Late:
		why = ErrLate
	default:
		if why = r.mayRetry(); why == nil {
			return r.denied(result)
		}
	}
	r.state = ended
	return Decision{Step: Done, Result: result, Why: why}
}

// denied decides after a denial that may be approved of.
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

// mayRetry says why the command must not run without its sandbox; nil if it
// may when somebody approves.
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

// key is what an answer now is remembered under.
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
