package approval

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"codex.internal/pkg/sandbox/permissions"
)

// profile returns a profile that permits reading everything, and the additional entries.
func profile(more ...permissions.Entry) permissions.Profile {
	entries := append([]permissions.Entry{{Path: permissions.Path{Kind: permissions.Root}, Access: permissions.Read}}, more...)
	return permissions.Profile{Kind: permissions.Managed, FileSystem: permissions.FileSystem{Entries: entries}}
}

var (
	readOnly   = profile()
	secret     = profile(permissions.Entry{Path: permissions.Path{Text: "/secret"}, Access: permissions.Deny})
	secretGlob = profile(permissions.Entry{Path: permissions.Path{Kind: permissions.Glob, Text: "**/*.env"}, Access: permissions.Deny})
	// noNetwork confines the process, but not its files.
	noNetwork = permissions.Profile{Kind: permissions.Managed, FileSystem: permissions.FileSystem{Unrestricted: true}}
)

func request(p permissions.Profile) Request {
	return Request{Environment: "remote", Argv: []string{"sh", "-c", "echo hi > x"}, Cwd: "file:///w", Sandbox: "s", Profile: p}
}

// describe returns the words for one decision of a run.
func describe(d Decision) string {
	switch d.Step {
	case Ask:
		text := "ask"
		if d.Question.Retry {
			text += fmt.Sprintf(" %q after %d", d.Question.Reason, d.Question.ExitCode)
		}
		if d.Question.Covers {
			text += " for both"
		}
		return text
	case Start:
		text := "run unconfined"
		if d.Sandboxed {
			text = "run"
		}
		if d.Retry {
			text = "re" + text
		}
		if d.Remembered {
			text += " as remembered"
		}
		return text
	case Done:
		text := fmt.Sprintf("done %d", d.Result.ExitCode)
		if d.Why != nil {
			text += ": " + d.Why.Error()
		}
		return text
	case Refuse:
		text := "refused: " + d.Err.Error()
		if d.Interrupt {
			text += ", interrupt"
		}
		return text
	default:
		return "nothing"
	}
}

// drive makes a run with the given answers and results, in order.
func drive(req Request, policy Policy, session *Session, answers []Answer, results []Result) []string {
	run, d := Begin(req, policy, session)
	for seen := []string(nil); ; {
		seen = append(seen, describe(d))
		switch {
		case d.Step == Ask && len(answers) > 0:
			d, answers = run.Answer(answers[0]), answers[1:]
		case d.Step == Start && len(results) > 0:
			d, results = run.Result(results[0]), results[1:]
		default:
			return seen
		}
	}
}

func TestDecisions(t *testing.T) {
	const (
		again   = `ask "command failed; retry without sandbox?" after 1`
		never   = "done 1: the approval policy allows no retry without the sandbox: it is "
		reads   = "done 1: its permissions deny reading some paths, and without the sandbox it could read them"
		reject  = "refused: rejected by user"
		forbids = "refused: approval policy disallowed sandbox approval prompt"
	)
	granular := Policy{Kind: Granular, SandboxPrompts: true}
	denied, fine := Result{ExitCode: 1, Denied: true}, Result{}
	for _, tt := range []struct {
		name    string
		profile permissions.Profile
		policy  Policy
		answers []Answer
		results []Result
		want    []string
	}{
		// Before the first attempt.
		{"untrusted always asks", noNetwork, Policy{Kind: Untrusted}, nil, nil, []string{"ask for both"}},
		{"untrusted asks about a restricted file system", readOnly, Policy{Kind: Untrusted}, nil, nil, []string{"ask for both"}},
		{"on-request asks about a restricted file system", readOnly, Policy{Kind: OnRequest}, []Answer{Once}, []Result{fine}, []string{"ask", "run", "done 0"}},
		{"on-request does not ask about another", noNetwork, Policy{Kind: OnRequest}, nil, []Result{fine}, []string{"run", "done 0"}},
		{"granular asks about a restricted file system", readOnly, granular, nil, nil, []string{"ask for both"}},
		{"granular does not ask about another", noNetwork, granular, nil, []Result{fine}, []string{"run", "done 0"}},
		{"granular that must not ask refuses", readOnly, Policy{Kind: Granular}, nil, nil, []string{forbids}},
		{"never does not ask", readOnly, Policy{}, nil, []Result{fine}, []string{"run", "done 0"}},
		{"on-failure does not ask", readOnly, Policy{Kind: OnFailure}, nil, []Result{fine}, []string{"run", "done 0"}},
		{"a no before the first attempt", readOnly, Policy{Kind: Untrusted}, []Answer{Deny}, nil, []string{"ask for both", reject}},
		// After the first attempt.
		{"a failure of its own is final", readOnly, Policy{Kind: OnFailure}, nil, []Result{{ExitCode: 3}}, []string{"run", "done 3"}},
		{"never accepts a denial", readOnly, Policy{}, nil, []Result{denied}, []string{"run", never + "never"}},
		{"on-request accepts a denial", readOnly, Policy{Kind: OnRequest}, []Answer{Once}, []Result{denied}, []string{"ask", "run", never + "on-request"}},
		{"denied reads are final", secret, Policy{Kind: OnFailure}, nil, []Result{denied}, []string{"run", reads}},
		{"denied patterns are final", secretGlob, granular, []Answer{Once}, []Result{denied}, []string{"ask", "run", reads}},
		{"and approval does not help", secret, Policy{Kind: Untrusted}, []Answer{ForSession}, []Result{denied}, []string{"ask", "run", reads}},
		{"on-failure asks", readOnly, Policy{Kind: OnFailure}, []Answer{Once}, []Result{denied, fine}, []string{"run", again, "rerun unconfined", "done 0"}},
		{
			"untrusted has asked already", readOnly, Policy{Kind: Untrusted}, []Answer{Once}, []Result{denied, fine},
			[]string{"ask for both", "run", "rerun unconfined", "done 0"},
		},
		{"so has granular", readOnly, granular, []Answer{Amend}, []Result{denied, fine}, []string{"ask for both", "run", "rerun unconfined", "done 0"}},
		{"granular that has not asks", noNetwork, granular, []Answer{Once}, []Result{denied, fine}, []string{"run", again, "rerun unconfined", "done 0"}},
		{"granular that must not ask accepts", noNetwork, Policy{Kind: Granular}, nil, []Result{denied}, []string{"run", never + "granular"}},
		{
			"each attempt is asked about if that is wanted", readOnly, Policy{Kind: Untrusted, EachAttempt: true}, []Answer{ForSession, Once},
			[]Result{denied, fine}, []string{"ask", "run", again, "rerun unconfined", "done 0"},
		},
		// Answers.
		{"for the session", readOnly, Policy{Kind: OnFailure}, []Answer{ForSession}, []Result{denied, fine}, []string{"run", again, "rerun unconfined", "done 0"}},
		{"with an amendment", readOnly, Policy{Kind: OnFailure}, []Answer{Amend}, []Result{denied, fine}, []string{"run", again, "rerun unconfined", "done 0"}},
		{"deny", readOnly, Policy{Kind: OnFailure}, []Answer{Deny}, []Result{denied}, []string{"run", again, reject}},
		{"abort", readOnly, Policy{Kind: OnFailure}, []Answer{Abort}, []Result{denied}, []string{"run", again, reject + ", interrupt"}},
		{"no answer", readOnly, Policy{Kind: OnFailure}, []Answer{TimedOut}, []Result{denied}, []string{"run", again, "refused: nobody answered in time"}},
		{"an answer that there is none of is a no", readOnly, Policy{Kind: OnFailure}, []Answer{99}, []Result{denied}, []string{"run", again, reject}},
		// The retry.
		{
			"its failure is final", readOnly, Policy{Kind: OnFailure}, []Answer{Once}, []Result{denied, {ExitCode: 4}},
			[]string{"run", again, "rerun unconfined", "done 4"},
		},
		{"even a denial", readOnly, Policy{Kind: OnFailure}, []Answer{Once}, []Result{denied, denied}, []string{"run", again, "rerun unconfined", "done 1"}},
	} {
		if got := drive(request(tt.profile), tt.policy, &Session{}, tt.answers, tt.results); !slices.Equal(got, tt.want) {
			t.Errorf("%s:\n got %q\nwant %q", tt.name, got, tt.want)
		}
	}
}

func TestOutOfOrder(t *testing.T) {
	run, _ := Begin(request(readOnly), Policy{Kind: OnFailure}, nil)
	if d := run.Answer(Once); d.Step != Refuse || !errors.Is(d.Err, ErrOrder) {
		t.Errorf("an answer to no question: %s", describe(d))
	}
	if d := run.Result(Result{Denied: true}); d.Step != Refuse || !errors.Is(d.Err, ErrOrder) {
		t.Errorf("a result after the end: %s", describe(d))
	}
	run, _ = Begin(request(readOnly), Policy{Kind: Untrusted}, nil)
	if d := run.Result(Result{}); d.Step != Refuse || !errors.Is(d.Err, ErrOrder) {
		t.Errorf("a result of no attempt: %s", describe(d))
	}
}

func TestApprovalsForTheSession(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	session := &Session{}
	base := request(readOnly)
	denied := []Result{{ExitCode: 1, Denied: true}, {}}
	drive(base, Policy{Kind: OnFailure}, session, []Answer{ForSession}, denied)
	change := func(f func(*Request)) Request {
		r := base
		f(&r)
		return r
	}
	for name, tt := range map[string]struct {
		request    Request
		remembered bool
	}{
		"the same":                     {base, true},
		"equal arguments":              {change(func(r *Request) { r.Argv = []string{"sh", "-c", "echo hi > x"} }), true},
		"another environment":          {change(func(r *Request) { r.Environment = "other" }), false},
		"another command":              {change(func(r *Request) { r.Argv = []string{"sh", "-c", "echo hi > y"} }), false},
		"other arguments that look so": {change(func(r *Request) { r.Argv = []string{"sh", `-c" "echo hi > x`} }), false},
		"another directory":            {change(func(r *Request) { r.Cwd = "file:///w/x" }), false},
		"a terminal":                   {change(func(r *Request) { r.TTY = true }), false},
		"another sandbox":              {change(func(r *Request) { r.Sandbox = "t" }), false},
		"additional permissions":       {change(func(r *Request) { r.Additional = "a" }), false},
	} {
		got := drive(tt.request, Policy{Kind: OnFailure}, session, nil, denied)
		if remembered := slices.Contains(got, "rerun unconfined as remembered"); remembered != tt.remembered {
			t.Errorf("%s: got %q, want remembered %v", name, got, tt.remembered)
		}
	}
	// Under untrusted, the approval covers the first attempt.
	if got := drive(base, Policy{Kind: Untrusted}, session, nil, denied); !slices.Equal(got, []string{"run as remembered", "rerun unconfined", "done 0"}) {
		t.Errorf("untrusted: %q", got)
	}
	// An approval of the attempt in the sandbox does not cover the retry.
	apart := &Session{}
	drive(base, Policy{Kind: Untrusted, EachAttempt: true}, apart, []Answer{ForSession}, []Result{{}})
	if got := drive(base, Policy{Kind: Untrusted, EachAttempt: true}, apart, nil, denied); len(got) != 2 || !strings.HasPrefix(got[1], "ask") {
		t.Errorf("each attempt: %q", got)
	}
	// Once is once.
	once := &Session{}
	drive(base, Policy{Kind: OnFailure}, once, []Answer{Once}, denied)
	if once.Approved(base.Key()) {
		t.Error("an approval for once is remembered")
	}
}

func TestSessionIsBounded(t *testing.T) {
	s := &Session{}
	key := func(i int) Key { return Request{Argv: []string{fmt.Sprint(i)}}.Key() }
	for i := range maxApprovals {
		if !s.Approve(key(i)) {
			t.Fatalf("no room for approval %d", i)
		}
	}
	if s.Approve(key(maxApprovals)) || s.Approved(key(maxApprovals)) {
		t.Error("there is room beyond the limit")
	}
	if !s.Approve(key(0)) || !s.Approved(key(maxApprovals-1)) {
		t.Error("what was approved before is forgotten")
	}
	if (*Session)(nil).Approve(key(0)) || (*Session)(nil).Approved(key(0)) {
		t.Error("nothing remembers something")
	}
}

func TestKindsHaveNames(t *testing.T) {
	for k, name := range kinds {
		if got := Kind(k).String(); got != name {
			t.Errorf("kind %d is %q, want %q", k, got, name)
		}
	}
	if got := Kind(99).String(); got != "invalid" {
		t.Errorf("kind 99 is %q", got)
	}
}

// TestInvariants makes random runs, with calls in and out of order, and checks the invariants
// against the history of the answers.
func TestInvariants(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	profiles := []permissions.Profile{readOnly, secret, secretGlob, noNetwork}
	session := &Session{}
	forSession := make(map[string]bool) // the keys are the whole requests
	retries, refusals := 0, 0
	for range 20_000 {
		p := random.IntN(len(profiles))
		req := request(profiles[p])
		req.Environment = fmt.Sprint("environment ", random.IntN(2))
		req.Cwd, req.Sandbox = fmt.Sprint("file:///", random.IntN(2)), fmt.Sprint(p)
		req.Argv = []string{fmt.Sprint(random.IntN(2))}
		policy := Policy{Kind: Kind(random.IntN(len(kinds))), SandboxPrompts: random.IntN(2) == 0}
		spelled := fmt.Sprint(req.Environment, "|", req.Cwd, "|", req.Sandbox, "|", req.Argv)

		run, d := Begin(req, policy, session)
		approved, attempts := forSession[spelled], 0
		for steps := 0; d.Step == Ask || d.Step == Start; steps++ {
			if steps > 4 {
				t.Fatalf("%s: a run without an end", spelled)
			}
			if d.Step == Start {
				attempts++
				if d.Sandboxed != (attempts == 1) || d.Retry != (attempts == 2) {
					t.Fatalf("%s: attempt %d is %+v", spelled, attempts, d)
				}
			}
			if d.Step == Start && !d.Sandboxed {
				retries++
				allowed := policy.Kind == OnFailure || policy.Kind == Untrusted || policy.Kind == Granular && policy.SandboxPrompts
				switch {
				case !approved:
					t.Fatalf("%s: unconfined without an approval", spelled)
				case !allowed:
					t.Fatalf("%s: unconfined under %s", spelled, policy.Kind)
				case p == 1 || p == 2:
					t.Fatalf("%s: unconfined in spite of denied reads", spelled)
				}
			}
			// Sometimes the front end makes a mistake.
			if wrong := random.IntN(50) == 0; (d.Step == Ask) != wrong {
				a := Answer(random.IntN(int(TimedOut) + 2))
				yes := d.Step == Ask && (a == Once || a == Amend || a == ForSession)
				if approved = approved || yes; yes && a == ForSession {
					forSession[spelled] = true
				}
				d = run.Answer(a)
				continue
			}
			d = run.Result(Result{ExitCode: random.IntN(3) - 1, Denied: random.IntN(2) == 0})
		}
		if attempts > 2 {
			t.Fatalf("%s: %d attempts", spelled, attempts)
		}
		if d.Step == Refuse {
			refusals++
		}
	}
	if retries == 0 || refusals == 0 {
		t.Errorf("%d retries and %d refusals show nothing", retries, refusals)
	}
}
