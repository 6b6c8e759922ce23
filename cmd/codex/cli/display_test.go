package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/creack/pty"
)

const evil = "\x1b[31m\x1b]0;title\a\u202e\u009b31m\x9b"

func TestMessagesAreMadeSafeEverywhere(t *testing.T) {
	var out, errs bytes.Buffer
	s := newStreams(nil, &out, &errs)
	fmt.Fprint(s.out, evil)
	fmt.Fprint(s.rawErr, evil)
	if out.String() != evil || errs.String() != evil {
		t.Errorf("what is for programs was changed: %q, %q", out.String(), errs.String())
	}
	errs.Reset()
	tellf(s.err, "codex: %v\nnext\n", errors.New(evil+"\ncodex: all is well"))
	if want := `codex: \x1b[31m\x1b]0;title\x07\u202e\u009b31m\x9b\ncodex: all is well` + "\nnext\n"; errs.String() != want {
		t.Errorf("%q, want %q", errs.String(), want)
	}
}

func TestTerminalsShowNothingThatSteersThem(t *testing.T) {
	master, tty, err := pty.Open()
	if err != nil {
		t.Skip(err)
	}
	defer master.Close()
	s := newStreams(tty, tty, tty)
	fmt.Fprint(s.out, "out "+evil+" ")
	fmt.Fprint(s.err, "err "+evil+" ")
	fmt.Fprintln(s.out, listed(s.out)("a\nb"))
	fmt.Fprint(s.rawOut, "\x1b[0m") // and this does
	_ = tty.Close()
	text, _ := io.ReadAll(master)
	if got := string(text); strings.Count(got, "\x1b") != 1 || strings.ContainsAny(got, "\u202e\u009b") || !strings.Contains(got, `a\nb`) {
		t.Errorf("%q", got)
	}
	if got := listed(io.Discard)("a\tb"); got != "\xffa\tb\xff" {
		t.Errorf("a table would change %q", got)
	}
}

func TestMessagesWaitForTheAnswer(t *testing.T) {
	var errs bytes.Buffer
	s := newStreams(nil, io.Discard, &errs)
	show := holdMessages(s.err)
	fmt.Fprint(s.err, evil)
	fmt.Fprint(drawOn(s.err), "\x1b[K")
	fmt.Fprint(s.err, strings.Repeat("x", 2*maxSaid)+"end")
	if errs.Len() != 0 {
		t.Errorf("while a question is asked there is %q", errs.String())
	}
	show()
	if got := errs.String(); len(got) != maxSaid || !strings.HasSuffix(got, "xend") {
		t.Errorf("%d bytes: %.20q", len(got), got)
	}
	fmt.Fprint(s.err, "again")
	if !strings.HasSuffix(errs.String(), "again") {
		t.Errorf("%q", errs.String())
	}
}
