package execclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/digest"
	"codex.internal/pkg/wire/websocket"
)

// bubble runs a test with a fake clock. All goroutines must end.
func bubble(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }

func TestASessionIsResumed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newHost(t)
		var changes []StateChange
		c, p := h.join(Options{OnStateChange: func(s StateChange) { changes = append(changes, s) }}, execproto.ExtensionTakeOver)
		defer c.Close()
		proc := p.run(c, "1")
		p.output("1", 1, "one")
		time.Sleep(calmTime)
		h.refuses(errRefused)
		begin := time.Now()
		p.cut()
		time.Sleep(250 * time.Millisecond)
		if c.State() != Recovering {
			t.Errorf("it is %v", c.State())
		}
		h.refuses(nil)
		p = <-h.peers
		if took := time.Since(begin); took != 300*time.Millisecond || h.dials != 5 {
			t.Errorf("%d dials, the last after %v", h.dials, took)
		}
		params := p.greet()
		if params.ResumeSessionID == nil || *params.ResumeSessionID != testSession || !params.TakeOver {
			t.Errorf("resumed with %+v", params)
		}
		var read execproto.ReadParams
		m := p.expect("process/read", &read)
		if *read.AfterSeq != 1 || read.MaxBytes != nil || *read.WaitMS != 0 {
			t.Errorf("asked for %+v", read)
		}
		code := 3
		// New events arrived before the answer.
		p.output("1", 4, "four")
		p.answer(m, execproto.ReadResult{
			Chunks:  []execproto.OutputChunk{{Seq: 2, Stream: execproto.Stdout, Chunk: []byte("two")}},
			NextSeq: 4, Exited: true, ExitCode: &code, SandboxDenied: true,
		})
		p.closed("1", 5)
		var got []string
		for e, err := range proc.Events(t.Context()) {
			must(t, err)
			got = append(got, fmt.Sprint(e.Seq, string(e.Data), e.ExitCode, e.SandboxDenied))
		}
		if want := []string{"1one0 false", "2two0 false", "33 true", "4four0 false", "50 false"}; !slices.Equal(clean(got), clean(want)) {
			t.Errorf("got %q, want clean(got) clean(want)", got)
		}
		if state, err := proc.WaitClosed(t.Context()); err != nil || state.Code != 3 || !state.SandboxDenied {
			t.Errorf("got state %+v, error %v; want no error, state.Code 3, state.SandboxDenied true", state, err)
		}
		synctest.Wait()
		if len(changes) != 2 || changes[0].State != Recovering || changes[1].State != Connected ||
			changes[0].Err == nil || changes[0].Err.Error() != "exec-server transport disconnected" {
			t.Errorf(`got %+v; want len(changes) 2, changes[0].State %v, changes[1].State %v, an error, changes[0].Err "exec-server transport disconnected"`, changes, Recovering, Connected)
		}
	})
}

func clean(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = strings.ReplaceAll(s, " ", "")
	}
	return out
}

func TestCallsAcrossACut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newHost(t)
		c, p := h.join(Options{})
		defer c.Close()
		proc := p.run(c, "1")
		type outcome struct {
			what string
			err  error
		}
		done := make(chan outcome, 3)
		go func() {
			status, err := proc.Write(t.Context(), []byte("input"))
			done <- outcome{"write " + string(status), err}
		}()
		var first, second execproto.WriteParams
		p.expect("process/write", &first)
		go func() {
			_, err := c.EnvironmentInfo(t.Context())
			done <- outcome{"info", err}
		}()
		p.expect("environment/info", nil)
		go func() {
			_, err := proc.Terminate(t.Context())
			done <- outcome{"terminate", err}
		}()
		p.expect("process/terminate", nil)
		p.cut()
		p = <-h.peers
		p.greet()
		if o := <-done; o.what != "terminate" || !errors.Is(o.err, ErrClosed) {
			t.Errorf(`got %+v; want o.what "terminate", o.err %v`, o, ErrClosed)
		}
		p.answer(p.expect("process/read", nil), execproto.ReadResult{NextSeq: 1})
		for range 2 {
			text := <-p.in
			m := decode(t, text)
			switch m.Method {
			case "process/write":
				must(t, execproto.DecodeTo(m.Params, &second))
				p.answer(m, execproto.WriteResult{Status: execproto.WriteAccepted})
			case "environment/info":
				p.answer(m, execproto.EnvironmentInfo{})
			default:
				t.Errorf("%s came", text)
			}
		}
		for range 2 {
			if o := <-done; o.err != nil {
				t.Errorf("got %+v, want no error", o)
			}
		}
		if *first.WriteID != *second.WriteID || string(second.Chunk) != "input" {
			t.Errorf("%+v, then %+v", first, second)
		}
	})
}

func TestAStartAcrossACut(t *testing.T) {
	for _, known := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			h := newHost(t)
			c, p := h.join(Options{})
			defer c.Close()
			done := make(chan error, 1)
			var proc *Process
			go func() {
				var err error
				proc, err = c.Start(t.Context(), execproto.StartParams{ProcessID: "1", Argv: []string{"x"}, Cwd: "/"})
				done <- err
			}()
			p.expect("process/start", nil)
			p.cut()
			p = <-h.peers
			p.greet() // a process that is not known to run is not recovered
			m := p.expect("process/start", nil)
			if known {
				p.refuse(m, execproto.CodeInvalidRequest, "process ID already exists")
				code := 0
				p.answer(p.expect("process/read", nil), execproto.ReadResult{NextSeq: 3, Exited: true, ExitCode: &code, Closed: true})
			} else {
				p.answer(m, execproto.StartResult{ProcessID: "1"})
				p.exited("1", 1, 0)
				p.closed("1", 2)
			}
			must(t, <-done)
			if state, err := proc.WaitClosed(t.Context()); err != nil || state.Code != 0 {
				t.Errorf("got state %+v, error %v; want no error, state.Code 0", state, err)
			}
		})
	}
}

// Codex CLI's servers report nothing about a process while it is starting, which may be
// forever.
func TestAStartAcrossACutThatTakesTime(t *testing.T) {
	for name, tt := range map[string]struct {
		in, want error
	}{
		"too much was missed": {nil, ErrEventsLost},
		"for ever":            {ErrStarting, ErrStarting},
	} {
		bubble(t, func(t *testing.T) {
			h := newHost(t)
			c, p := h.join(Options{})
			defer c.Close()
			done := make(chan error, 1)
			go func() {
				_, err := c.Start(t.Context(), execproto.StartParams{ProcessID: "1", Argv: []string{"x"}, Cwd: "/"})
				done <- err
			}()
			starting := func() {
				p.refuse(p.expect("process/read", nil), execproto.CodeInvalidRequest, "process id 1 is starting")
			}
			p.expect("process/start", nil)
			p.cut()
			p = <-h.peers
			p.greet()
			p.refuse(p.expect("process/start", nil), execproto.CodeInvalidRequest, "process ID already exists")
			starting()
			p.cut()
			p = <-h.peers
			p.greet()
			starting() // nothing needs to be recovered
			p.refuse(p.expect("process/start", nil), execproto.CodeInvalidRequest, "process ID already exists")
			for range startingTime/retryPause + 1 {
				if tt.in == nil {
					p.answer(p.expect("process/read", nil), execproto.ReadResult{NextSeq: 10})
					break
				}
				starting()
			}
			p.expect("process/terminate", nil)
			if err := <-done; !errors.Is(err, tt.want) {
				t.Errorf("%s: got error %v, want %v", name, err, tt.want)
			}
		})
	}
}

func TestAnAbandonedStartIsTerminated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newHost(t)
		c, p := h.join(Options{})
		defer c.Close()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		params := execproto.StartParams{ProcessID: "1", Argv: []string{"x"}, Cwd: "/"}
		go func() {
			_, err := c.Start(ctx, params)
			done <- err
		}()
		p.expect("process/start", nil)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want %v", err, context.Canceled)
		}
		p.expect("process/terminate", nil)
		if _, err := c.Start(t.Context(), params); err == nil || err.Error() != "exec-server protocol error: session already registered for process 1" {
			t.Errorf("got error %v; want an error, %v", err, "exec-server protocol error: session already registered for process 1")
		}
		p.cut() // it is requested again on the next connection
		p = <-h.peers
		p.greet()
		p.answer(p.expect("process/terminate", nil), execproto.TerminateResult{})
		synctest.Wait()
		p.run(c, "1")
	})
}

func TestARefusedStartIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newHost(t)
		c, p := h.join(Options{})
		defer c.Close()
		go func() { p.refuse(p.expectLater("process/start"), execproto.CodeInternal, "no such program") }()
		_, err := c.Start(t.Context(), execproto.StartParams{ProcessID: "1", Argv: []string{"x"}, Cwd: "/"})
		if err == nil || err.Error() != "exec-server rejected request (-32603): no such program" {
			t.Errorf(`got error %v; want an error, "exec-server rejected request (-32603): no such program"`, err)
		}
		p.run(c, "1")
	})
}

func TestRecoveryEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	for _, tt := range []struct {
		name  string
		o     Options
		plain bool // the transport cannot be dialed again
		after func(h *host)
		took  time.Duration
		text  string
	}{
		{"nobody answers", Options{}, false, func(h *host) { h.refuses(errRefused) }, 25 * time.Second,
			"exec-server transport disconnected; failed to resume exec-server session: recovery timed out after 25s"},
		{"not for long", Options{RecoveryTimeout: 2 * time.Second}, false, func(h *host) { h.refuses(errRefused) }, 2 * time.Second,
			"exec-server transport disconnected; failed to resume exec-server session: recovery timed out after 2s"},
		{"no recovery wanted", Options{RecoveryTimeout: -1}, false, nil, 0, "exec-server transport disconnected"},
		{"no dialer", Options{}, true, nil, 0, "exec-server transport disconnected"},
		{"the session is unknown", Options{}, false, func(h *host) {
			p := <-h.peers
			p.refuse(p.expect("initialize", nil), execproto.CodeInvalidRequest, "unknown session id "+testSession)
		}, 0, "exec-server transport disconnected; failed to resume exec-server session: exec-server rejected request (-32600): unknown session id " + digest.Of(testSession)},
		{"another session", Options{}, false, func(h *host) {
			p := <-h.peers
			p.answer(p.expect("initialize", nil), execproto.InitializeResult{SessionID: "other"})
		}, 0, "exec-server transport disconnected; failed to resume exec-server session: exec-server protocol error: exec-server initialized an unexpected session d9298a10d1b07358"},
		{"a dial that is of no use", Options{}, false, func(h *host) { h.refuses(errors.New("no such scheme")) }, 0,
			"exec-server transport disconnected; failed to resume exec-server session: no such scheme"},
		{"initialize is not answered", Options{}, false, func(h *host) {
			for range 3 {
				p := <-h.peers
				p.expect("initialize", nil)
			}
		}, 25 * time.Second, "exec-server transport disconnected; failed to resume exec-server session: recovery timed out after 25s"},
	} {
		bubble(t, func(t *testing.T) {
			h := newHost(t)
			var c *Client
			var p *peer
			if tt.plain {
				tr, _ := h.Dial(t.Context())
				p = <-h.peers
				go p.greet()
				var err error
				c, err = NewClient(t.Context(), tr, tt.o)
				must(t, err)
			} else {
				c, p = h.join(tt.o)
			}
			defer c.Close()
			synctest.Wait()
			time.Sleep(calmTime)
			proc := p.run(c, "1")
			begin := time.Now()
			if tt.after != nil {
				defer func(done chan struct{}) { <-done }(background(func() { tt.after(h) }))
				synctest.Wait()
			}
			p.cut()
			<-c.Done()
			if took := time.Since(begin); took != tt.took {
				t.Errorf("%s: it took %v", tt.name, took)
			}
			_, err := c.EnvironmentInfo(t.Context())
			_, wait := proc.Wait(t.Context())
			_, write := proc.Write(t.Context(), []byte("x"))
			for _, err := range []error{err, wait, write, c.Err()} {
				if err == nil || err.Error() != tt.text || !errors.Is(err, ErrClosed) {
					t.Errorf("%s: got error %v; want an error, %v, %v", tt.name, err, tt.text, ErrClosed)
				}
			}
			// A poll of a failed process is answered.
			r, err := proc.Read(t.Context(), execproto.ReadParams{})
			if err != nil || !r.Exited || !r.Closed || r.ExitCode != nil || r.NextSeq != 1 || r.Failure == nil || *r.Failure != tt.text {
				t.Errorf("%s: got r %+v, error %v; want no error, r.Exited true, r.Closed true, r.ExitCode nil, r.NextSeq 1, r.Failure that is not nil, r.Failure %v", tt.name, r, err, tt.text)
			}
		})
	}
}

func background(f func()) chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return done
}

func TestASessionThatIsAttachedIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newHost(t)
		c, p := h.join(Options{})
		defer c.Close()
		time.Sleep(calmTime)
		p.cut()
		for range 3 {
			p = <-h.peers
			var params execproto.InitializeParams
			m := p.expect("initialize", &params)
			if params.TakeOver {
				t.Error("it asked for what the server does not know")
			}
			p.refuse(m, execproto.CodeSessionAttached, "session ID is already attached to another connection")
		}
		p = <-h.peers
		p.greet()
		go func() { p.answer(p.expectLater("environment/info"), execproto.EnvironmentInfo{}) }()
		_, err := c.EnvironmentInfo(t.Context())
		must(t, err)
	})
}

// TestOneProcessIsLost: an error of one process does not end others.
func TestOneProcessIsLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newHost(t)
		c, p := h.join(Options{})
		defer c.Close()
		procs := map[string]*Process{"gap": p.run(c, "gap"), "gone": p.run(c, "gone"), "good": p.run(c, "good")}
		p.output("gap", 1, "x")
		synctest.Wait()
		time.Sleep(calmTime)
		p.cut()
		p = <-h.peers
		p.greet()
		for range len(procs) + 2 {
			m := decode(t, <-p.in)
			var params execproto.ProcessParams
			must(t, execproto.DecodeTo(m.Params, &params))
			switch m.Method + " " + params.ProcessID {
			case "process/read gap":
				p.answer(m, execproto.ReadResult{Chunks: []execproto.OutputChunk{{Seq: 9, Stream: execproto.Stdout}}, NextSeq: 10})
			case "process/read gone":
				p.refuse(m, execproto.CodeInvalidRequest, "unknown process id gone")
			case "process/read good":
				p.answer(m, execproto.ReadResult{NextSeq: 1})
			case "process/terminate gap", "process/terminate gone":
				p.answer(m, execproto.TerminateResult{})
			default:
				t.Errorf("%s %s came", m.Method, params.ProcessID)
			}
		}
		for id, want := range map[string]struct {
			after uint64
			text  string
		}{
			"gap":  {1, "failed to recover process gap: exec-server protocol error: process events are no longer retained while recovering through sequence 9"},
			"gone": {0, "failed to recover process gone: exec-server rejected request (-32600): unknown process id gone"},
		} {
			_, err := procs[id].Wait(t.Context())
			var lost *EventsLostError
			if !errors.As(err, &lost) || !errors.Is(err, ErrEventsLost) || lost.After != want.after || !strings.HasPrefix(err.Error(), want.text) {
				t.Errorf("%s: got error %v; want errors.As(err, &lost), %v, lost.After %v, an error beginning with %q", id, err, ErrEventsLost, want.after, want.text)
			}
		}
		p.exited("good", 1, 0)
		p.closed("good", 2)
		if state, err := procs["good"].WaitClosed(t.Context()); err != nil || state.Code != 0 {
			t.Errorf("got state %+v, error %v; want no error, state.Code 0", state, err)
		}
	})
}

// TestABurstBeforeTheAnswer: before the answer to initialize, more messages arrive than any
// queue holds.
func TestABurstBeforeTheAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newHost(t)
		c, p := h.join(Options{})
		defer c.Close()
		proc := p.run(c, "1")
		time.Sleep(calmTime)
		p.cut()
		p = <-h.peers
		m := p.expect("initialize", nil)
		for seq := range uint64(2000) {
			p.output("1", seq+1, "x")
		}
		p.answer(m, execproto.InitializeResult{SessionID: testSession})
		p.expect("initialized", nil)
		p.answer(p.expect("process/read", nil), execproto.ReadResult{NextSeq: 2001})
		p.exited("1", 2001, 0)
		p.closed("1", 2002)
		if state, err := proc.WaitClosed(t.Context()); err != nil || state.Code != 0 {
			t.Errorf("got state %+v, error %v; want no error, state.Code 0", state, err)
		}
	})
}

// TestReasonOfTheServer: an error about a lost connection has what the server said when it closed the connection.
func TestReasonOfTheServer(t *testing.T) {
	err := fmt.Errorf("read: %w", &websocket.CloseError{Code: websocket.ClosePolicyViolation, Reason: "the token has expired"})
	if got, want := disconnected(err), textDisconnected+": the server said: the token has expired"; got != want || closeReason(err) != "the token has expired" {
		t.Errorf("got %q and the reason %q, want %q", got, closeReason(err), want)
	}
	if got := closeReason(io.EOF); got != "" {
		t.Errorf("got the reason %q of a connection that broke", got)
	}
}
