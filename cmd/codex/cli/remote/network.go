package remote

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/cmd/codex/cli/egressfile"
	"codex.internal/cmd/codex/cli/sandbox"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/terminal"
	"codex.internal/pkg/sandbox/egress"
)

// network answers the server's questions about hosts. The server's patterns have no ports. So for
// --allow-domain with a port, the server asks about each connection to that host, and network
// compares the port. Its methods may be called from any goroutine.
type network struct {
	allowed *egress.Endpoints
	ask     bool          // ask the user (--ask-network)
	turn    chan struct{} // holds a value while a goroutine's question is on the terminal
	// file stores the hosts that the user permits; nil: no file. Only the goroutine whose turn it
	// is uses it.
	file *egressfile.File

	mu      sync.Mutex
	now     *attempt // the current attempt; nil: none
	asked   int      // how often the user was asked during this attempt
	session map[sandbox.Endpoint]bool
	refused map[sandbox.Endpoint]bool // the hosts that the user refused during this attempt
	cancel  context.CancelFunc
}

func newNetwork(o execOptions) *network {
	return &network{
		allowed: o.endpoints, ask: o.askNetwork, turn: make(chan struct{}, 1),
		session: make(map[sandbox.Endpoint]bool), refused: make(map[sandbox.Endpoint]bool),
	}
}

// begin makes an attempt the current one until end is called. The caller must call end after a.over
// was closed. end waits until no question is on the terminal.
func (n *network) begin(a *attempt) (end func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now, n.asked, n.refused = a, 0, make(map[sandbox.Endpoint]bool)
	return func() {
		n.mu.Lock()
		n.now = nil
		n.mu.Unlock()
		n.turn <- struct{}{}
		<-n.turn
	}
}

// interrupt removes the question from the terminal. The host counts as refused once.
func (n *network) interrupt() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cancel != nil {
		n.cancel()
	}
}

// refusedByPerson reports whether the user refused the endpoint during this attempt.
func (n *network) refusedByPerson(e sandbox.Endpoint) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.refused[e]
}

// answer implements execclient.Options.OnPolicyRequest.
func (n *network) answer(ctx context.Context, q execproto.PolicyRequestParams) execproto.PolicyDecision {
	if n.decide(ctx, q) {
		return execproto.PolicyDecision{Type: string(egress.Pass)}
	}
	reason := egress.ReasonNotAllowed
	return execproto.PolicyDecision{Type: string(egress.Block), Reason: &reason}
}

// decide reports whether a process may connect to a host.
func (n *network) decide(ctx context.Context, q execproto.PolicyRequestParams) bool {
	host, ok := egress.NormalHost(q.Request.Host)
	e := sandbox.Endpoint{Host: host, Port: q.Request.Port}
	n.mu.Lock()
	a := n.now
	n.mu.Unlock()
	switch {
	case !ok || e.Port == 0 || len(q.Request.Protocol) > maxProtocol || a == nil || a.params.ProcessID != q.ProcessID:
		return false
	case n.allowed.Match(e.Host, e.Port) != "":
		return true
	case !n.ask:
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, networkAskTime)
	defer cancel()
	select {
	case n.turn <- struct{}{}:
		defer func() { <-n.turn }()
	case <-ctx.Done():
		return false
	case <-a.over:
		return false
	}
	if allow, known := n.remembered(e); known {
		return allow
	}
	switch asked := n.count(a, cancel); {
	case asked == maxNetworkQuestions+1:
		a.x.say(fmt.Sprintf("the command asks for more than %d hosts that are not allowed; the others are refused. "+
			"List hosts with --allow-domain", maxNetworkQuestions))
		return false
	case asked == 0 || asked > maxNetworkQuestions:
		return false
	}
	defer n.count(nil, nil)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	wg.Go(func() {
		select {
		case <-a.over:
			cancel()
		case <-stop:
		}
	})
	return n.put(ctx, a, e, q.Request.Protocol)
}

// remembered returns the answer that is retained for the session. known is false if there is no such answer.
func (n *network) remembered(e sandbox.Endpoint) (allow, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	allow, known = n.session[e]
	if known && !allow {
		n.refused[e] = true
	}
	return allow, known
}

// count registers a question of an attempt, with the function by which interrupt cancels it. It
// returns the number of questions so far, or 0 if the attempt is over. With a nil attempt it
// unregisters the question.
func (n *network) count(a *attempt, cancel context.CancelFunc) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a == nil {
		n.cancel = nil
		return 0
	}
	if n.now != a {
		return 0
	}
	n.asked++
	n.cancel = cancel
	return n.asked
}

// put asks the user about a host and stores the answer.
func (n *network) put(ctx context.Context, a *attempt, e sandbox.Endpoint, protocol string) bool {
	word, err := a.askNetwork(ctx, e, protocol)
	if err != nil {
		a.x.say(err.Error())
	}
	allow := word == answerOnce || word == answerSession
	if allow && n.file != nil {
		// Do not use the question's context: the answer also applies if the command ends now.
		if err := n.file.Allow(context.WithoutCancel(ctx), e.Option()); err != nil {
			a.x.say("--save: " + err.Error())
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !allow {
		n.refused[e] = true
	}
	if (word == answerSession || word == answerNever) && len(n.session) < maxRemembered {
		n.session[e] = allow
	}
	return allow
}

// The words for an answer about a host in --json.
const (
	answerOnce    = "once"
	answerSession = "session"
	answerNever   = "never"
	answerNo      = "no"
)

// askNetwork asks the user about a host while the command runs. Meanwhile the command's output and
// input are held back and its raw mode is left: the question must be the last text on the screen,
// and the answer must not reach the command.
func (a *attempt) askNetwork(ctx context.Context, e sandbox.Endpoint, protocol string) (word string, err error) {
	a.report.mu.Lock()
	defer a.report.mu.Unlock()
	if ctx.Err() != nil {
		return answerNo, nil
	}
	cooked := a.raw.leave()
	defer cooked()
	show := cmdutil.HoldMessages(a.x.s.Err)
	line, err := a.x.console.line(ctx, a.networkQuestion(e, protocol), nil)
	show()
	by := "user"
	switch {
	case errors.Is(err, errSmallTerminal):
		word, by = answerNo, "nobody"
	case err != nil:
		return answerNo, err
	case isYes(line):
		word = answerOnce
	case isSession(line):
		word = answerSession
	case strings.EqualFold(line, "n") || strings.EqualFold(line, "never"):
		word = answerNever
	default:
		word = answerNo
	}
	emitted := a.report.write(execEvent{Type: "network", Host: e.Host, Port: e.Port, Protocol: protocol, Answer: word, By: by})
	return word, errors.Join(err, emitted)
}

func (a *attempt) networkQuestion(e sandbox.Endpoint, protocol string) question {
	return question{
		facts: []string{
			"network: the command wants to reach " + e.String() + " (" + terminal.Literal(protocol) + ")",
			placeOf(a.x.environment, a.params.Cwd),
		},
		command: shellCommand(a.asked),
		ask:     "Let it reach this host and port?",
		no:      "never",
	}
}

// denials returns the hosts that the process's network proxy refused and the user did not, at most
// sandbox.MaxShownDenials of them. found reports whether there were any.
func (n *network) denials(list []execproto.Denial) (shown []sandbox.Refusal, found bool) {
	for _, d := range list {
		host, ok := egress.NormalHost(d.Host)
		e := sandbox.Endpoint{Host: host, Port: d.Port}
		if d.Kind != execproto.DenialNetwork || ok && n.refusedByPerson(e) {
			continue
		}
		found = true
		if ok && len(shown) < sandbox.MaxShownDenials {
			shown = append(shown, sandbox.Refusal{Endpoint: e, Rule: egress.Rule(d.Rule), Reason: d.Reason, Detail: d.Detail})
		}
	}
	return shown, found
}
