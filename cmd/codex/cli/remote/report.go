package remote

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/terminal"
)

// execEvent is one line of --json. Attempt is 1, or 2 for the retry.
type execEvent struct {
	Type    string `json:"type"`
	Attempt int    `json:"attempt,omitempty"`
	// These fields are for started. Sandbox is the confinement that the server reports.
	ProcessID   string   `json:"processId,omitempty"`
	Environment string   `json:"environment,omitempty"`
	Argv        []string `json:"argv,omitempty"`
	Cwd         string   `json:"cwd,omitempty"`
	Sandbox     string   `json:"sandbox,omitempty"`
	// These fields are for output. Either Data or DataBase64 is set.
	Stream     execproto.Stream `json:"stream,omitempty"`
	Data       *string          `json:"data,omitempty"`
	DataBase64 []byte           `json:"dataBase64,omitempty"`
	// ExitCode is for exited and denied.
	ExitCode *int `json:"exitCode,omitempty"`
	// These fields are for exited.
	SandboxDenied *bool         `json:"sandboxDenied,omitempty"`
	Denials       []denialEvent `json:"denials,omitempty"`
	// Cause and Resources are copied from process/exited.
	Cause     execproto.Cause `json:"cause,omitempty"`
	Resources *resourceEvent  `json:"resources,omitempty"`
	// Limits is for started. It is copied from process/start.
	Limits []limitEvent `json:"limits,omitempty"`
	// These fields are for network: the host about which the user was asked.
	Host     string `json:"host,omitempty"`
	Port     uint16 `json:"port,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	// Answer is for approval and network.
	Answer string `json:"answer,omitempty"`
	By     string `json:"by,omitempty"`
	// Reason is for denied: the reason why there is no retry.
	Reason string `json:"reason,omitempty"`
}

// denialEvent is a denial in --json.
type denialEvent struct {
	Kind     string `json:"kind"`
	Host     string `json:"host"`
	Port     uint16 `json:"port"`
	Protocol string `json:"protocol"`
	Count    uint64 `json:"count"`
	Reason   string `json:"reason"`
	Rule     string `json:"rule,omitempty"`
	Detail   string `json:"detail,omitempty"`
}

// report reports the events of a command: its output unchanged, or all events as JSON. Its methods
// may be called from any goroutine.
type report struct {
	// mu is held by each method, and while a question about a host is on the terminal.
	mu       sync.Mutex
	out, err io.Writer
	written  *written
	json     bool
	attempt  int
	partial  map[execproto.Stream][]byte // in JSON: the beginning of an incomplete character
}

// written knows what the commands of one program have written to the terminal.
type written struct {
	mu    sync.Mutex
	plain terminal.Plain
}

func (w *written) see(data []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plain.See(data)
}

func (w *written) get() terminal.Plain {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.plain
}

// emit writes an event of --json.
func (r *report) emit(e execEvent) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.write(e)
}

// write does the work of emit. The caller must hold mu.
func (r *report) write(e execEvent) error {
	if !r.json {
		return nil
	}
	e.Attempt = r.attempt
	var line bytes.Buffer
	text := json.NewEncoder(&line)
	text.SetEscapeHTML(false)
	if err := text.Encode(e); err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	if _, err := r.out.Write(line.Bytes()); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// process reports an event of the process.
func (r *report) process(e execclient.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e.Kind {
	case execclient.Output:
		return r.output(e.Stream, e.Data)
	case execclient.Exited:
		exited := execEvent{Type: "exited", ExitCode: &e.ExitCode, SandboxDenied: &e.SandboxDenied, Cause: e.Cause, Resources: (*resourceEvent)(e.Resources)}
		for _, d := range e.Denials {
			exited.Denials = append(exited.Denials, denialEvent(d))
		}
		return r.write(exited)
	case execclient.Closed:
		return r.closed()
	default:
		return nil
	}
}

// output passes output on. In JSON, UTF-8 stays text: an incomplete character is held back until
// its rest arrives.
func (r *report) output(stream execproto.Stream, data []byte) error {
	r.written.see(data)
	if !r.json {
		to := r.out
		if stream == execproto.Stderr {
			to = r.err
		}
		if _, err := to.Write(data); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
		return nil
	}
	whole, rest := cutText(append(r.partial[stream], data...))
	if r.partial == nil {
		r.partial = make(map[execproto.Stream][]byte)
	}
	r.partial[stream] = rest
	return r.emitOutput(stream, whole)
}

func (r *report) emitOutput(stream execproto.Stream, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	e := execEvent{Type: "output", Stream: stream}
	if utf8.Valid(data) {
		text := string(data)
		e.Data = &text
	} else {
		e.DataBase64 = data
	}
	return r.write(e)
}

// closed writes output that was held back.
func (r *report) closed() error {
	for stream, rest := range r.partial {
		delete(r.partial, stream)
		if err := r.emitOutput(stream, rest); err != nil {
			return err
		}
	}
	return r.write(execEvent{Type: "closed"})
}

// cutText splits off an incomplete last character.
func cutText(b []byte) (whole, rest []byte) {
	for back := 1; back < utf8.UTFMax && back <= len(b); back++ {
		at := len(b) - back
		if !utf8.RuneStart(b[at]) {
			continue
		}
		if !utf8.FullRune(b[at:]) {
			return b[:at], b[at:]
		}
		break
	}
	return b, nil
}
