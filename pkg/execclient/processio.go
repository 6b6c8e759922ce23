package execclient

import (
	"context"
	"io"
	"strconv"

	"codex.internal/pkg/execproto"
)

// Read reads retained output by process/read. While the process has no follower, the output up
// to AfterSeq counts as consumed. If the process's events have failed, the result has the
// failure.
func (p *Process) Read(ctx context.Context, params execproto.ReadParams) (execproto.ReadResult, error) {
	p.mu.Lock()
	if params.AfterSeq != nil {
		p.readThrough = max(p.readThrough, *params.AfterSeq)
	}
	p.claim()
	failed := p.err
	next := p.last + 1
	p.mu.Unlock()
	p.maybeAck()
	if failed == nil {
		return p.read(ctx, params)
	}
	text := failed.Error()
	return execproto.ReadResult{Chunks: []execproto.OutputChunk{}, NextSeq: next, Exited: true, Closed: true, Failure: &text}, nil
}

func (p *Process) read(ctx context.Context, params execproto.ReadParams) (execproto.ReadResult, error) {
	params.ProcessID = p.id
	var r execproto.ReadResult
	err := p.c.Call(ctx, execproto.MethodProcessRead, &params, &r)
	return r, err
}

// Write writes to the process's stdin and waits until the server has accepted the data. It is
// written once, even if the connection is lost meanwhile.
func (p *Process) Write(ctx context.Context, data []byte) (execproto.WriteStatus, error) {
	p.mu.Lock()
	p.writeID++
	id, failed := strconv.FormatUint(p.writeID, 10), p.err
	p.mu.Unlock()
	if failed != nil {
		return "", failed
	}
	raw, err := encode(execproto.MethodProcessWrite, &execproto.WriteParams{ProcessID: p.id, Chunk: data, WriteID: &id})
	if err != nil {
		return "", err
	}
	m, err := p.c.call(ctx, execproto.MethodProcessWrite, raw, true)
	if err != nil {
		return "", err
	}
	var r execproto.WriteResult
	err = decodeAnswer(execproto.MethodProcessWrite, m, &r)
	return r.Status, err
}

// Stdin returns the process's stdin as a writer. Its Close ends the input. A refused write
// fails with ErrStdinClosed, ErrUnknownProcess or ErrStarting.
func (p *Process) Stdin(ctx context.Context) io.WriteCloser { return &stdinWriter{ctx, p} }

type stdinWriter struct {
	ctx context.Context
	p   *Process
}

func (w *stdinWriter) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n := min(len(b)-done, stdinChunk)
		status, err := w.p.Write(w.ctx, b[done:done+n])
		if err == nil {
			err = statusError(status)
		}
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

func statusError(status execproto.WriteStatus) error {
	switch status {
	case execproto.WriteAccepted:
		return nil
	case execproto.WriteUnknownProcess:
		return ErrUnknownProcess
	case execproto.WriteStarting:
		return ErrStarting
	default:
		return ErrStdinClosed
	}
}

func (w *stdinWriter) Close() error { return w.p.CloseStdin(w.ctx) }

// CloseStdin ends the process's input. Codex CLI's servers cannot do it: then the error is
// ErrNoCloseStdin.
func (p *Process) CloseStdin(ctx context.Context) error {
	method, params := execproto.MethodProcessCloseStdin, &execproto.ProcessParams{ProcessID: p.id}
	if !p.terminal || !p.c.Has(method) {
		return p.extension(ctx, method, params, ErrNoCloseStdin)
	}
	// Not repeatable: on a terminal this sends Ctrl-D, and a second one would end another
	// read.
	raw, err := encode(method, params)
	if err != nil {
		return err
	}
	m, err := p.c.call(ctx, method, raw, false)
	if err != nil {
		return err
	}
	return decodeAnswer(method, m, nil)
}
