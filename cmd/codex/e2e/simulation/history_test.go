package simulation

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// The operations of a client in the model.
const (
	opStart   = "start"   // starts a process
	opWrite   = "write"   // writes to its stdin
	opResume  = "resume"  // resumes the session
	opTake    = "take"    // takes the session over
	opEnd     = "end"     // the session ends, at any time
	opObserve = "observe" // the input that the process has read so far
	opFinal   = "final"   // all input that the process has read, after it has ended normally
)

// The results of an operation.
const (
	resultOK      = "ok"
	resultRefused = "refused" // the operation has no effect, and will have none
	resultUnknown = "unknown" // the operation has happened, will happen, or never happens
	resultNone    = "no session"
)

// input and output of an operation of the model.
type input struct {
	op    string
	id    string   // id of the write
	lines []string // lines that the process has read
}

type output string

// sessionState is the state of the model: a session with one process. The zero value has no session and no process.
type sessionState struct {
	started, ended bool
	written        string // ids of the writes, each followed by a blank
}

// sessionModel defines the valid histories. A process is started once. The input contains an
// accepted write once, in the clients' order. The process has read a prefix of the input. An ended
// session is not resumed.
func sessionModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return sessionState{} },
		Step: func(state, in, out any) (bool, any) { return step(state.(sessionState), in.(input), out.(output)) },
		DescribeOperation: func(in, out any) string {
			i := in.(input)
			return fmt.Sprintf("%s %s %v: %s", i.op, i.id, i.lines, out)
		},
	}
}

func step(s sessionState, in input, out output) (bool, any) {
	if out == resultRefused {
		return true, s
	}
	switch in.op {
	case opStart:
		if out == resultOK && (s.started || s.ended) {
			return false, s
		}
		s.started = true
	case opWrite:
		if out == resultOK && !s.started {
			return false, s
		}
		s.written += in.id + " "
	case opResume, opTake:
		return (out == resultNone) == s.ended || out == resultUnknown, s
	case opEnd:
		s.ended = true
	case opObserve:
		return strings.HasPrefix(s.written, joined(in.lines)), s
	case opFinal:
		return s.written == joined(in.lines), s
	}
	return true, s
}

func joined(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l + " ")
	}
	return b.String()
}

// history records the operations of the clients of one run, with their times.
type history struct {
	mu    sync.Mutex
	began time.Time
	ops   []porcupine.Operation
	lines []string
}

func newHistory() *history { return &history{began: time.Now()} }

// packet records a packet of a party, if -packets is given.
func (h *history) packet(direction string, data []byte) {
	if *packets {
		h.note("%s %d bytes, %x", direction, len(data), sha256.Sum256(data))
	}
}

// note adds a line.
func (h *history) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, fmt.Sprintf("%12d ", time.Since(h.began))+fmt.Sprintf(format, args...))
}

// call records that a client has begun an operation. The caller must call the returned function
// with the outcome.
func (h *history) call(client int, in input) func(out output) {
	call := time.Since(h.began)
	h.note("client %d: %s %s", client, in.op, in.id)
	return func(out output) {
		end := int64(time.Since(h.began))
		if out == resultUnknown {
			end = math.MaxInt64
		}
		h.note("client %d: %s %s %s: %s", client, in.op, in.id, strings.Join(in.lines, " "), out)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Call: int64(call), Output: out, Return: end})
	}
}

// checkTime bounds the search of the checker, in real time.
const checkTime = 20 * time.Second

// check reports whether the model allows the history. It must not run in a bubble, because the
// bubble's clock stands still while it searches.
//
// It leaves out a write of unknown outcome if the process was never seen to read it: the write may
// never happen, and each such write would double the search.
func (h *history) check() porcupine.CheckResult {
	read := make(map[string]bool)
	for _, o := range h.ops {
		for _, id := range o.Input.(input).lines {
			read[id] = true
		}
	}
	ops := slices.DeleteFunc(slices.Clone(h.ops), func(o porcupine.Operation) bool {
		in := o.Input.(input)
		return in.op == opWrite && o.Output.(output) == resultUnknown && !read[in.id]
	})
	return porcupine.CheckOperationsTimeout(sessionModel(), ops, checkTime)
}

// TestTheModelRefusesWrongHistories checks that the model refuses histories of a server that loses,
// repeats or reorders operations.
func TestTheModelRefusesWrongHistories(t *testing.T) {
	type op struct {
		call, end int64
		in        input
		out       output
	}
	start := op{0, 1, input{op: opStart}, resultOK}
	write := func(call, end int64, id string, out output) op { return op{call, end, input{op: opWrite, id: id}, out} }
	final := func(lines ...string) op { return op{90, 91, input{op: opFinal, lines: lines}, resultOK} }
	for name, tt := range map[string]struct {
		ops  []op
		want bool
	}{
		"one after the other": {[]op{start, write(2, 3, "a", resultOK), write(4, 5, "b", resultOK), final("a", "b")}, true},
		"exchanged":           {[]op{start, write(2, 3, "a", resultOK), write(4, 5, "b", resultOK), final("b", "a")}, false},
		"at the same time":    {[]op{start, write(2, 5, "a", resultOK), write(3, 4, "b", resultOK), final("b", "a")}, true},
		"twice":               {[]op{start, write(2, 3, "a", resultOK), final("a", "a")}, false},
		"lost":                {[]op{start, write(2, 3, "a", resultOK), final()}, false},
		"refused but written": {[]op{start, write(2, 3, "a", resultRefused), final("a")}, false},
		"unknown and written": {[]op{start, write(2, math.MaxInt64, "a", resultUnknown), final("a")}, true},
		"unknown, not there":  {[]op{start, write(2, math.MaxInt64, "a", resultUnknown), final()}, true},
		"unknown, and twice":  {[]op{start, write(2, math.MaxInt64, "a", resultUnknown), final("a", "a")}, false},
		"read before written": {[]op{start, {2, 3, input{op: opObserve, lines: []string{"a"}}, resultOK}, write(4, 5, "a", resultOK), final("a")}, false},
		"read late":           {[]op{start, write(2, 3, "a", resultOK), {4, 5, input{op: opObserve}, resultOK}, final("a")}, true},
		"started twice":       {[]op{start, {2, 3, input{op: opStart}, resultOK}}, false},
		"resumed after its end": {[]op{
			start, {2, math.MaxInt64, input{op: opEnd}, resultUnknown},
			{3, 4, input{op: opResume}, resultNone}, {5, 6, input{op: opTake}, resultOK},
		}, false},
		"ended without an end": {[]op{start, {3, 4, input{op: opResume}, resultNone}}, false},
	} {
		h := &history{}
		for i, o := range tt.ops {
			h.ops = append(h.ops, porcupine.Operation{ClientId: i, Input: o.in, Call: o.call, Output: o.out, Return: o.end})
		}
		if got := h.check(); (got == porcupine.Ok) != tt.want {
			t.Errorf("%s: got %v, want got == porcupine.Ok: %v", name, got, tt.want)
		}
	}
}
