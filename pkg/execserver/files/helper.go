package files

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"syscall"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/fileop/fshelper"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/sandbox/runner"
)

// helper is a confined codex-fs process. Only one goroutine may use it at a time.
type helper struct {
	srv        *Server
	child      *process.Child
	unhook     func() bool // stops watching the context
	answer     []byte
	memory     *memory // memory of the answer; nil: it is not counted
	told       int     // number of bytes of answer that nextLine has returned
	stderr     bytes.Buffer
	stderrRead sync.WaitGroup // done when stderr was read to its end
	writing    sync.WaitGroup // done when the last request was written, or writing has failed
}

// startHelper starts a helper in a sandbox. It is killed when ctx ends. The caller
// must call end when the helper is no longer needed.
func (srv *Server) startHelper(ctx context.Context, confinement *runner.Confinement) (h *helper, err error) {
	began, backend := time.Now(), "none"
	defer func() {
		srv.Events.HelperStarted.Tell(observe.Helper{Backend: backend, Took: time.Since(began), Err: err})
	}()
	runtime, err := srv.Sandboxes()
	if err != nil {
		return nil, err
	}
	backend = runtime.Status().Backend
	command, err := runtime.FileHelper(*confinement)
	if err != nil {
		return nil, execproto.InvalidRequest("failed to prepare fs sandbox: " + err.Error())
	}
	defer command.Close()
	child, err := srv.Supervisor.StartChild(process.Spec{
		Argv: command.Argv, Arg0: &command.Arg0, Dir: "/", Env: command.Env, ExtraFiles: command.Files,
		Standby: srv.Launcher(),
	})
	if err != nil {
		return nil, observe.AtShortage(err, execproto.Internal("failed to prepare fs sandbox: "+err.Error()))
	}
	h = &helper{srv: srv, child: child, unhook: context.AfterFunc(ctx, child.Kill)}
	h.stderrRead.Go(func() {
		_, _ = io.Copy(&h.stderr, io.LimitReader(child.Stderr, fshelper.MaxStderr))
		_, _ = io.Copy(io.Discard, child.Stderr)
	})
	return h, nil
}

// pipeRoom is how many bytes a pipe holds that is not read.
const pipeRoom = 64 << 10

// ask sends a request as several pieces, and returns the response, which is valid until the
// next call. An error that the helper reports is a *jsonrpc.Error with its code. After any
// other error the helper must not be used again.
func (h *helper) ask(operation string, request ...[]byte) ([]byte, error) {
	if err := h.send(request...); err != nil {
		return nil, err
	}
	return h.receive(operation)
}

// send sends a request. receive returns its response.
func (h *helper) send(request ...[]byte) error {
	size := 0
	for _, piece := range request {
		size += len(piece)
	}
	if size > pipeRoom {
		child := h.child // wait sets h.child to nil
		h.writing.Go(func() { _ = write(child, request) })
	} else if err := write(h.child, [][]byte{bytes.Join(request, nil)}); err != nil && !errors.Is(err, syscall.EPIPE) {
		return execproto.Internal("failed to encode or decode fs sandbox helper message: " + err.Error())
	}
	return nil
}

// receive returns the response to the request that send has sent; see ask.
func (h *helper) receive(operation string) ([]byte, error) {
	defer h.writing.Wait()
	answer, err := h.nextLine()
	if limit, ok := errors.AsType[*observe.LimitError](err); ok {
		h.child.Kill()
		return nil, limit
	}
	if err != nil {
		h.child.Kill()
		return nil, h.failed(err)
	}
	response, rpc, err := fshelper.ParseAnswer(answer, operation)
	switch {
	case err != nil:
		h.child.Kill()
		return nil, execproto.Internal(err.Error())
	case rpc != nil:
		return nil, rpc
	}
	return response, nil
}

// write writes the pieces of a request to a helper.
func write(child *process.Child, request [][]byte) error {
	for _, piece := range request {
		if _, err := child.Stdin.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

// nextLine returns the next line with its newline. The line is valid until the next call. A
// watch can send several lines at once.
func (h *helper) nextLine() ([]byte, error) {
	h.answer = slices.Delete(h.answer, 0, h.told)
	h.told = 0
	for searched := 0; ; {
		if i := bytes.IndexByte(h.answer[searched:], '\n'); i >= 0 {
			h.told = searched + i + 1
			return h.answer[:h.told], nil
		}
		if searched = len(h.answer); searched > fshelper.MaxAnswer {
			return nil, errTooLong
		}
		if err := h.read(); err != nil {
			return nil, err
		}
	}
}

var errTooLong = errors.New("the answer is too long")

// read reads more bytes of the answer.
func (h *helper) read() error {
	if len(h.answer) == cap(h.answer) {
		next := max(4<<10, 2*cap(h.answer))
		if h.memory != nil {
			if err := h.memory.grow(int64(next)); err != nil { // checked before allocating: many answers are refused here
				return err
			}
		}
		grown := append(make([]byte, 0, next), h.answer...)
		h.answer = grown
	}
	n, err := h.child.Stdout.Read(h.answer[len(h.answer):cap(h.answer)])
	h.answer = h.answer[:len(h.answer)+n]
	if n > 0 {
		return nil
	}
	return err
}

// failed returns the error for a helper that ended without an answer. err is the error of
// reading the answer.
func (h *helper) failed(err error) error {
	status, wait := h.wait()
	switch {
	case wait != nil:
		return execproto.Internal("failed to encode or decode fs sandbox helper message: " + wait.Error())
	case status.Exited() && status.ExitStatus() == 0:
		return execproto.Internal("failed to encode or decode fs sandbox helper message: " + err.Error())
	default:
		return execproto.Internal(fshelper.FailureText(status, h.stderr.Bytes()) + h.srv.whyNotExecuted(h.stderr.Bytes()))
	}
}

// whyNotExecuted returns a hint if the helper could not be executed because its program needs
// shared libraries, and "" for any other error. Scenario: go build with cgo makes such a
// program. It works, except for file requests of clients whose token has --cwd: their sandbox
// shows only that directory.
func (srv *Server) whyNotExecuted(stderr []byte) string {
	runtime, err := srv.Sandboxes()
	if err != nil || !bytes.Contains(stderr, []byte("execvp")) || !runtime.NeedsLibraries() {
		return ""
	}
	return "; this server's program is linked dynamically, and the sandbox of the request shows no libraries: build it with CGO_ENABLED=0"
}

// wait closes the helper's input and waits until the helper has ended. A second call does
// nothing.
func (h *helper) wait() (status syscall.WaitStatus, err error) {
	if h.child == nil {
		return 0, nil
	}
	_ = h.child.Stdin.Close() // ends a goroutine that is still writing a request
	h.writing.Wait()
	// A helper that does not end is killed.
	late := time.AfterFunc(helperEnd, h.child.Kill)
	h.stderrRead.Wait()
	status, err = h.child.Wait()
	late.Stop()
	h.unhook()
	_ = h.child.Stdout.Close()
	_ = h.child.Stderr.Close()
	h.child = nil
	return status, err
}

// end closes the helper's input and waits for it. It returns an error if the
// helper failed.
func (h *helper) end() error {
	status, err := h.wait()
	if err == nil && status != 0 {
		return execproto.Internal(fshelper.FailureText(status, h.stderr.Bytes()))
	}
	return err
}
