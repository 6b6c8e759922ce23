package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/cmd/codex/cli/sandbox"
	"codex.internal/pkg/approval"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
)

func TestShellQuote(t *testing.T) {
	for word, want := range map[string]string{
		"":                 "''",
		"make":             "make",
		"--a=b,c@d:/e_f.g": "--a=b,c@d:/e_f.g",
		"echo hi > x":      "'echo hi > x'",
		"it's":             `'it'\''s'`,
		`a"b\c`:            `'a"b\c'`,
		"größer":           "'größer'",
		"a\nb":             `$'a\nb'`,
		"\x1b[2K'\"\\":     `$'\x1b[2K\'"\\'`,
		"\xff":             `$'\xff'`,
		"\u202ekcab":       `$'\u202ekcab'`, // shown from right to left
		"$HOME":            "'$HOME'",
		"~":                "'~'",
	} {
		if got := shellQuote(word); got != want {
			t.Errorf("%q: got %s, want %s", word, got, want)
		}
	}
	if got := shellCommand([]string{"sh", "-c", "a b"}); got != "sh -c 'a b'" {
		t.Errorf(`got %s, want "sh -c 'a b'"`, got)
	}
}

func TestWhoIsAsked(t *testing.T) {
	known, unknown := &sandbox.Policy{Known: true}, &sandbox.Policy{}
	both := approval.Policy{Kind: approval.Untrusted, EachAttempt: true}
	afterwards, never := approval.Policy{Kind: approval.OnFailure}, approval.Policy{}
	for _, tt := range []struct {
		name     string
		o        execOptions
		terminal bool
		want     approval.Policy
		silent   string // a part of the expected text
	}{
		{"a terminal", execOptions{approves: true, policy: known}, true, afterwards, ""},
		{"none", execOptions{approves: true, policy: known}, false, never, "no terminal"},
		{"none, and it was wanted", execOptions{approves: true, policy: known, ask: askOnFailure}, false, never, "no terminal"},
		{"never", execOptions{approves: true, policy: known, ask: askNever}, true, never, "--ask never"},
		{"always", execOptions{approves: true, policy: known, ask: askAlways}, true, both, ""},
		{"always, and nobody there", execOptions{approves: true, policy: known, ask: askAlways}, false, both, "no terminal"},
		{"yes", execOptions{approves: true, policy: known, yes: true}, false, afterwards, ""},
		{"no input", execOptions{approves: true, policy: known, noInput: true}, true, never, "--no-input"},
		{"a sandbox that is not understood", execOptions{approves: true, policy: unknown, yes: true}, true, never, "does not understand"},
		{"and always", execOptions{approves: true, policy: unknown, ask: askAlways}, true, approval.Policy{Kind: approval.OnRequest}, "does not understand"},
		{"run", execOptions{policy: known}, true, never, "does not ask"},
	} {
		if got, silent := tt.o.approvals(tt.terminal); got != tt.want || !strings.Contains(silent, tt.silent) || tt.silent == "" && silent != "" {
			t.Errorf(`%s: got %+v, silent %q; want %+v, silent with %q, silent ""`, tt.name, got, silent, tt.want, tt.silent)
		}
	}
}

func TestFailuresThatAreOurs(t *testing.T) {
	refused := func(code int) error { return &execclient.ServerError{Code: code} }
	for name, tt := range map[string]struct {
		err  error
		code int
	}{
		"the command's exit code":      {&cmdutil.ExitError{Code: 255}, 255},
		"the command's own 127":        {&cmdutil.ExitError{Code: 127}, 127},
		"a connection":                 {&cmdutil.ExitError{Code: cmdutil.ExitUnreachable, Err: io.EOF}, 125},
		"a command that is not there":  {&cmdutil.ExitError{Code: cmdutil.ExitNotStarted, Err: refused(execproto.CodeInternal)}, 127},
		"a sandbox that is refused":    {&cmdutil.ExitError{Code: cmdutil.ExitNotStarted, Err: refused(execproto.CodeInvalidParams)}, 125},
		"a server that did not obey":   {&cmdutil.ExitError{Code: cmdutil.ExitNotStarted, Err: errors.New("not confined")}, 125},
		"a wrong call":                 {cmdutil.Usagef("wrong"), 2},
		"a failure without a code":     {io.ErrClosedPipe, 125},
		"a timeout":                    {&cmdutil.ExitError{Code: cmdutil.ExitTimeout, Err: errors.New("late")}, 124},
		"a denial that is not retried": {&cmdutil.ExitError{Code: cmdutil.ExitDenied}, 126},
	} {
		if got := cmdutil.ExitCode(ourFailure(tt.err)); got != tt.code {
			t.Errorf("%s: got %d, want %d", name, got, tt.code)
		}
	}
	if ourFailure(nil) != nil {
		t.Error("success is a failure")
	}
}

func TestOutputInJSON(t *testing.T) {
	var out bytes.Buffer
	r := report{out: &out, json: true, written: new(written)}
	write := func(stream execproto.Stream, chunks ...string) {
		for _, c := range chunks {
			if err := r.process(execclient.Event{Kind: execclient.Output, Stream: stream, Data: []byte(c)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(execproto.Stdout, "a<\xe2", "\x82", "\xacb", "\xf0\x9f\x98\x80", "x\xff", "cut \xe2\x82")
	write(execproto.Stderr, "\xc3")
	write(execproto.Stdout, "z")
	if err := r.process(execclient.Event{Kind: execclient.Closed}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		var e execEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("%s %s %x", e.Type, e.Stream, e.DataBase64)
		if e.Data != nil {
			text = fmt.Sprintf("%s %s %q", e.Type, e.Stream, *e.Data)
		}
		got = append(got, text)
	}
	want := []string{
		`output stdout "a<"`, `output stdout "€b"`, `output stdout "😀"`, `output stdout 78ff`, `output stdout "cut "`,
		`output stdout e2827a`, `output stderr c3`, `closed  `,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || !strings.Contains(out.String(), `"a<"`) {
		t.Errorf("got %q; want fmt.Sprint(got) %v, stdout with %q", got, fmt.Sprint(want), `"a<"`)
	}
}

// halting is a reader whose Read returns when the test sends a piece.
type halting chan string

func (h halting) Read(b []byte) (int, error) {
	text, ok := <-h
	if !ok {
		return 0, io.EOF
	}
	return copy(b, text), nil
}

// TestInputLosesNothing reads from a pipe, where reads can be interrupted, and from other readers,
// which are read in the background.
func TestInputLosesNothing(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	pieces := make(halting, 1)
	for name, tt := range map[string]struct {
		in    io.Reader
		write func(string)
		end   func()
	}{
		"a pipe":   {r, func(s string) { _, _ = w.WriteString(s) }, func() { _ = w.Close() }},
		"a reader": {pieces, func(s string) { pieces <- s }, func() { close(pieces) }},
	} {
		in := newInput(tt.in)
		defer in.close()
		b := make([]byte, 2)
		for range 3 {
			given, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() {
				_, err := in.Read(given, b)
				done <- err
			}()
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Fatalf("%s: a read that was given up: %v", name, err)
			}
		}
		tt.write("abc\n")
		if n, err := in.Read(t.Context(), b); err != nil || string(b[:n]) != "ab" {
			t.Errorf(`%s: got b[:n] %q, error %v; want no error, b[:n] "ab"`, name, b[:n], err)
		}
		if line, err := in.readLine(t.Context()); err != nil || line != "c" {
			t.Errorf(`%s: got line %q, error %v; want no error, line "c"`, name, line, err)
		}
		tt.write(strings.Repeat("y", maxAnswer+1) + "\n")
		if line, err := in.readLine(t.Context()); err == nil {
			t.Errorf("%s: a line that is too long: %q", name, line)
		}
		tt.end()
		for err = nil; err == nil; {
			_, err = in.Read(t.Context(), b)
		}
		if err != io.EOF {
			t.Errorf("%s: at the end %v", name, err)
		}
	}
}

func TestLink(t *testing.T) {
	var out bytes.Buffer
	l := newLink(&out, false)
	change := func(s execclient.State) {
		l.changed(execclient.StateChange{State: s})
		l.show()
	}
	change(execclient.Connected)
	if out.Len() > 0 || l.lost() {
		t.Errorf("connected at first: %q", out.String())
	}
	change(execclient.Recovering)
	l.show()
	if out.String() != "codex: the connection was lost; reconnecting…\n" || !l.lost() {
		t.Errorf("got %q; want %q, l.lost()", out.String(), "codex: the connection was lost; reconnecting…\n")
	}
	out.Reset()
	change(execclient.Connected)
	if !strings.HasPrefix(out.String(), "codex: reconnected after ") || l.lost() {
		t.Errorf(`got %q; want a text beginning with "codex: reconnected after ", not l.lost()`, out.String())
	}
	// On a terminal the outcome replaces the line about the lost connection.
	out.Reset()
	l.inPlace = true
	change(execclient.Recovering)
	change(execclient.Failed)
	if got := out.String(); got != "\r\x1b[Kcodex: the connection was lost; reconnecting…\r\x1b[Kcodex: the connection was lost, and with it the session\r\n" {
		t.Errorf("got %q, want %q", got, "\r\x1b[Kcodex: the connection was lost; reconnecting…\r\x1b[Kcodex: the connection was lost, and with it the session\r\n")
	}
	// The user learns what the server said, such as that a token has expired.
	out.Reset()
	l.inPlace = false
	change(execclient.Connected)
	out.Reset()
	for _, s := range []execclient.State{execclient.Recovering, execclient.Failed} {
		l.changed(execclient.StateChange{State: s, Err: &execclient.DisconnectedError{Reason: "the token has expired\x1b"}})
		l.show()
	}
	const said = "codex: the server has ended the connection: the token has expired"
	if got := out.String(); !strings.HasPrefix(got, said) || strings.Contains(got, "\x1b") || !strings.HasSuffix(got, ", and with it the session\n") {
		t.Errorf("got %q, want %q twice", got, said)
	}
	l.inPlace = true
	change(execclient.Connected)
	// Another writer gets only complete lines.
	var elsewhere bytes.Buffer
	undo := l.divert(&elsewhere)
	change(execclient.Recovering)
	undo()
	if got := elsewhere.String(); got != "codex: the connection was lost; reconnecting…\n" {
		t.Errorf("got %q, want %q", got, "codex: the connection was lost; reconnecting…\n")
	}
	// A short pause, which a user would not notice, is not reported.
	out.Reset()
	change(execclient.Connected)
	out.Reset()
	l.changed(execclient.StateChange{State: execclient.Recovering})
	l.changed(execclient.StateChange{State: execclient.Connected})
	done, cancel := context.WithCancel(t.Context())
	cancel()
	l.routineShow(done)
	if strings.Contains(out.String(), "reconnecting") {
		t.Errorf(`got %q, want a text without "reconnecting"`, out.String())
	}
}

// TestLinkWithQuiet: a recovered connection is a note, which --quiet hides; a lost session is
// an error.
func TestLinkWithQuiet(t *testing.T) {
	var out bytes.Buffer
	l := newLink(&out, true)
	for _, s := range []execclient.State{execclient.Connected, execclient.Recovering, execclient.Connected, execclient.Recovering, execclient.Failed} {
		if l.changed(execclient.StateChange{State: s}); out.Len() > 0 {
			t.Errorf("before %v: %q", s, out.String())
		}
		l.show()
	}
	if got := out.String(); got != "codex: the connection was lost, and with it the session\n" {
		t.Errorf("got %q, want %q", got, "codex: the connection was lost, and with it the session\n")
	}
}

// TestLinkOfAServerThatStops prints nothing of a connection whose server has said that it stops: the error of the command
// says so.
func TestLinkOfAServerThatStops(t *testing.T) {
	var out bytes.Buffer
	l := newLink(&out, false)
	l.serverStops()
	l.changed(execclient.StateChange{State: execclient.Recovering, Err: errors.New("x")})
	l.show()
	l.changed(execclient.StateChange{State: execclient.Failed, Err: errors.New("x")})
	l.show()
	if out.Len() > 0 {
		t.Errorf("got %q, want nothing", out.String())
	}
	a := &attempt{x: &remoteExec{}, cause: execproto.CauseServerStopped}
	if err := a.limitError(137); err == nil || cmdutil.ExitCode(err) != 137 || err.Error() != "the command was killed, because the server was shut down" {
		t.Errorf("got %v, want the reason and exit code 137", err)
	}
}

func TestExitLines(t *testing.T) {
	for line, want := range map[string]string{
		"exit": "7 true", "exit 3": "3 true", "exit 256": "0 true", "exit x": "0 false", "exit 1 2": "0 false", "exiting": "0 false", "echo exit": "0 false",
	} {
		if code, ok := exitLine(line, 7); fmt.Sprint(code, ok) != want {
			t.Errorf("%s: got exit code %d, ok %v; want fmt.Sprint(code, ok) %v", line, code, ok, want)
		}
	}
}

func TestCtrlCClearsTheLine(t *testing.T) {
	got, err := io.ReadAll(lineInput{strings.NewReader("ab\x03\x03c"), io.Discard})
	if err != nil || string(got) != "ab\x05\x15\x05\x15c" {
		t.Errorf("got %q, error %v; want no error, \"ab\\x05\\x15\\x05\\x15c\"", got, err)
	}
}

const testReport = "\x1b]7;0123;"

func TestShellsReportTheirDirectory(t *testing.T) {
	for name, tt := range map[string]struct {
		out, passed, dir string
	}{
		"at the end":            {"out\n" + testReport + "/a b\a", "out\n", "/a b"},
		"in between":            {"a" + testReport + "/x\ab", "ab", "/x"},
		"twice":                 {testReport + "/x\a" + testReport + "/y\a", "", "/y"},
		"none":                  {"out\x1b]7;", "out\x1b]7;", ""},
		"another word":          {"\x1b]7;0124;/x\a", "\x1b]7;0124;/x\a", ""},
		"one that does not end": {"a" + testReport + "/x", "a" + testReport + "/x", ""},
		"one that is too long":  {testReport + strings.Repeat("x", maxMarker+1) + "\a", testReport + strings.Repeat("x", maxMarker+1) + "\a", ""},
	} {
		for size := range 5 {
			passed, dir := filter(t, []byte(tt.out), size+1)
			if passed != tt.passed || dir != tt.dir {
				t.Errorf("%s, in pieces of %d: %.40q and %d bytes in all, %.40q", name, size+1, passed, len(passed), dir)
			}
		}
	}
}

// filter passes output through a cwdFilter in pieces of the given size.
func filter(t *testing.T, out []byte, size int) (passed, dir string) {
	t.Helper()
	var to bytes.Buffer
	f := &cwdFilter{to: &to, begin: []byte(testReport)}
	for len(out) > 0 {
		n := min(size, len(out))
		if wrote, err := f.Write(out[:n]); err != nil || wrote != n {
			t.Fatalf("wrote %d of %d: %v", wrote, n, err)
		}
		out = out[n:]
	}
	if err := f.flush(); err != nil {
		t.Fatal(err)
	}
	return to.String(), f.dir
}

// FuzzCwdFilter checks that the result does not depend on how the output is split, and that only
// reports of directories are removed.
func FuzzCwdFilter(f *testing.F) {
	f.Add([]byte("out\n"+testReport+"/a b\a"), 3)
	f.Add([]byte("\x1b\x1b]7;0\x1b]7;0123;"), 1)
	f.Fuzz(func(t *testing.T, out []byte, size int) {
		if size < 1 || size > len(out) {
			size = 1
		}
		passed, dir := filter(t, out, size)
		whole, wholeDir := filter(t, out, len(out)+1)
		if passed != whole || dir != wholeDir {
			t.Errorf("in pieces of %d: %q, %q and not %q, %q", size, passed, dir, whole, wholeDir)
		}
		if !bytes.Contains(out, []byte(testReport)) && passed != string(out) {
			t.Errorf("%q became %q", out, passed)
		}
	})
}

// TestQuestionsTakeTheInput: a question takes the input from a command that is reading it. Keys
// that are typed before the question gives the input back belong to the answer. Later keys belong
// to the command.
func TestQuestionsTakeTheInput(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	pieces := make(halting, 1)
	defer close(pieces) // ends the current read
	for name, tt := range map[string]struct {
		in    io.Reader
		write func(string)
	}{
		"a pipe":   {r, func(s string) { _, _ = w.WriteString(s) }},
		"a reader": {pieces, func(s string) { pieces <- s }},
	} {
		t.Run(name, func(t *testing.T) {
			in := newInput(tt.in)
			defer in.close()
			ctx, cancel := context.WithCancel(t.Context())
			got := make(chan string)
			var reading sync.WaitGroup
			reading.Go(func() {
				defer close(got)
				b := make([]byte, 16)
				for {
					n, err := in.Read(ctx, b)
					if err != nil {
						return
					}
					got <- string(b[:n])
				}
			})
			tt.write("command\n")
			if text := <-got; text != "command\n" {
				t.Errorf("the command got %q", text)
			}
			for range 20 {
				giveBack := in.take()
				tt.write("answer\n")
				if line, err := in.readLine(t.Context()); line != "answer" || err != nil {
					t.Errorf(`got line %q, error %v; want line "answer", no error`, line, err)
				}
				giveBack()
				tt.write("more\n")
				if text := <-got; text != "more\n" {
					t.Errorf("the command got %q", text)
				}
			}
			giveBack := in.take()
			cancel() // a read that waits for its turn ends, too
			reading.Wait()
			giveBack()
		})
	}
}

// TestAdviceOnAnUnenforcedSandbox: if the sandbox could not be set up, other permissions are not recommended.
func TestAdviceOnAnUnenforcedSandbox(t *testing.T) {
	e := &execution{last: &attempt{unenforced: true}}
	if got := e.denied(); !strings.Contains(got, "codex doctor") || strings.Contains(got, "--writable-root") {
		t.Errorf("got the advice %q", got)
	}
}
