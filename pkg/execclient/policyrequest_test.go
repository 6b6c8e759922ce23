package execclient

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"

	"codex.internal/pkg/execproto"
)

const asked = `{"id":7,"method":"network/policyRequest","params":{"processId":"p","request":{"protocol":"http","host":"a.test","port":80}}}`

// TestPolicyRequest: a question is answered under its id; one that cannot be decoded is
// answered with an error.
func TestPolicyRequest(t *testing.T) {
	h := newHost(t)
	reason := "not_allowed"
	c, p := h.join(Options{OnPolicyRequest: func(_ context.Context, q execproto.PolicyRequestParams) execproto.PolicyDecision {
		if q.ProcessID == "p" && q.Request == (execproto.PolicyRequest{Protocol: "http", Host: "a.test", Port: 80}) {
			return execproto.PolicyDecision{Type: "allow"}
		}
		return execproto.PolicyDecision{Type: "deny", Reason: &reason}
	}})
	defer c.Close()
	for _, tt := range []struct{ question, want string }{
		{asked, `{"id":7,"result":{"decision":{"type":"allow"}}}`},
		{strings.Replace(asked, "a.test", "b.test", 1), `{"id":7,"result":{"decision":{"type":"deny","reason":"not_allowed"}}}`},
		{strings.Replace(asked, `"port":80`, `"port":-1`, 1), `{"error":{"code":-32602,"message":"invalid network policy request params"},"id":7}`},
	} {
		p.out <- []byte(tt.question)
		if got := string(<-p.in); got != tt.want {
			t.Errorf("%s\ngot  %s\nwant %s", tt.question, got, tt.want)
		}
	}
}

// TestPolicyRequestsEnd: an unanswered question ends with the connection, and Close waits for
// it. Too many questions end the connection, and so does any other request, or any question to
// a client without OnPolicyRequest.
func TestPolicyRequestsEnd(t *testing.T) {
	silent := func(begun chan<- struct{}) func(context.Context, execproto.PolicyRequestParams) execproto.PolicyDecision {
		return func(ctx context.Context, _ execproto.PolicyRequestParams) execproto.PolicyDecision {
			if begun != nil {
				begun <- struct{}{}
			}
			<-ctx.Done()
			return execproto.PolicyDecision{Type: "allow"}
		}
	}
	t.Run("with the client", func(t *testing.T) {
		begun := make(chan struct{})
		c, p := newHost(t).join(Options{OnPolicyRequest: silent(begun)})
		p.out <- []byte(asked)
		<-begun
		must(t, c.Close())
	})
	t.Run("with the connection", func(t *testing.T) {
		begun := make(chan struct{})
		h := newHost(t)
		c, p := h.join(Options{OnPolicyRequest: silent(begun)})
		p.out <- []byte(asked)
		<-begun
		p.cut()
		second := <-h.peers
		second.greet()
		must(t, c.Close())
	})
	for name, tt := range map[string]struct {
		answers  bool
		requests int
		text     string
	}{
		"a flood":            {true, maxPolicyRequests + 1, asked},
		"another request":    {true, 1, strings.Replace(asked, "policyRequest", "other", 1)},
		"nobody to answer":   {false, 1, asked},
		"just not too many":  {true, maxPolicyRequests, asked},
		"one after the next": {true, 1, asked},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{RecoveryTimeout: -1}
			if tt.answers {
				o.OnPolicyRequest = silent(nil)
			}
			c, p := newHost(t).join(o)
			for i := range tt.requests {
				p.out <- []byte(strings.Replace(tt.text, `"id":7`, `"id":`+strconv.Itoa(i+1), 1))
			}
			if ended := tt.text != asked || !tt.answers || tt.requests > maxPolicyRequests; ended {
				<-c.Done()
			} else {
				var refusing sync.WaitGroup
				refusing.Go(func() { p.refuse(p.expectLater(execproto.MethodEnvironmentInfo), execproto.CodeInternal, "no") })
				if _, err := c.EnvironmentInfo(t.Context()); err == nil || c.Err() != nil {
					t.Errorf("the client has ended: %v, %v", err, c.Err())
				}
				refusing.Wait()
			}
			_ = c.Close()
		})
	}
}
