//go:build linux || darwin

package execserver

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
	"codex.internal/pkg/fileop/fshelper"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/sandbox"
)

// workConfined does the request in a helper, in the ordinary lane.
func (rq *request) workConfined(intent *sandbox.Intent) {
	operation := rq.method
	line, err := fshelper.AppendRequest(nil, operation, rq.params, rq.c.srv.home)
	if err != nil {
		rq.fail(err)
		return
	}
	reading := slices.Contains(readsOnly, operation)
	if reading {
		intent = demote(intent)
	}
	rq.work("", func(ctx context.Context) {
		start := rq.c.srv.startHelper
		if reading {
			start = rq.c.srv.warm.start
		}
		h, err := start(ctx, intent)
		if err != nil {
			rq.fail(err)
			return
		}
		response, err := h.ask(operation, line)
		if !reading {
			// What the sandbox has put somewhere is gone when it has ended. This
			// also holds for a request that failed: when this function returns, its
			// context ends, and that kills a launcher that is still tidying up.
			if ended := h.end(); err == nil {
				err = ended
			}
		} else {
			// Nobody has to wait for the end of one that only reads.
			rq.c.srv.wg.Go(func() { _ = h.end() })
		}
		if err != nil {
			rq.fail(err)
			return
		}
		rq.respond(func(b []byte) []byte { return append(b, response...) })
	})
}

// helper is a confined codex-fs. One goroutine uses it at a time.
type helper struct {
	child  *process.Child
	unhook func() bool // stops watching the context
	answer []byte
	stderr bytes.Buffer
	noted  sync.WaitGroup // stderr has been read
}

// startHelper starts a helper under the launcher. It is killed when ctx ends.
// end must be called when it is no longer needed.
func (srv *Server) startHelper(ctx context.Context, intent *sandbox.Intent) (*helper, error) {
	runtime, err := srv.sandboxes()
	if err != nil {
		return nil, unenforceable(err)
	}
	command, err := runtime.FileHelper(*intent)
	if err != nil {
		return nil, invalid("failed to prepare fs sandbox: " + err.Error())
	}
	defer command.Close()
	child, err := srv.supervisor.StartChild(process.Spec{
		Argv: command.Argv, Arg0: &command.Arg0, Dir: "/", Env: command.Env, ExtraFiles: command.Files,
	})
	if err != nil {
		return nil, internal("failed to prepare fs sandbox: " + err.Error())
	}
	h := &helper{child: child, unhook: context.AfterFunc(ctx, child.Kill)}
	h.noted.Go(func() {
		_, _ = io.Copy(&h.stderr, io.LimitReader(child.Stderr, fshelper.MaxStderr))
		_, _ = io.Copy(io.Discard, child.Stderr)
	})
	return h, nil
}

// pipeRoom is how much a pipe takes without being read.
const pipeRoom = 64 << 10

// ask sends a request and returns the response to it, which is valid until the
// next call. An error of the helper's system has its code; any other means
// that the helper is of no more use.
func (h *helper) ask(operation string, line []byte) ([]byte, error) {
	var writing sync.WaitGroup
	defer writing.Wait()
	if len(line) > pipeRoom {
		writing.Go(func() { _, _ = h.child.Stdin.Write(line) })
	} else if _, err := h.child.Stdin.Write(line); err != nil && !errors.Is(err, syscall.EPIPE) {
		return nil, internal("failed to encode or decode fs sandbox helper message: " + err.Error())
	}
	if err := h.readLine(); err != nil {
		h.child.Kill() // so that nothing is still being written
		return nil, h.failed(err)
	}
	response, rpc, err := fshelper.ParseAnswer(h.answer, operation)
	switch {
	case err != nil:
		h.child.Kill()
		return nil, internal(err.Error())
	case rpc != nil:
		return nil, rpc
	}
	return response, nil
}

// readLine reads an answer up to its newline, which is the last byte that
// comes.
func (h *helper) readLine() error {
	h.answer = h.answer[:0]
	for {
		if len(h.answer) == cap(h.answer) {
			h.answer = slices.Grow(h.answer, max(4<<10, len(h.answer)))
		}
		n, err := h.child.Stdout.Read(h.answer[len(h.answer):cap(h.answer)])
		h.answer = h.answer[:len(h.answer)+n]
		switch {
		case n > 0 && h.answer[len(h.answer)-1] == '\n':
			return nil
		case err != nil:
			return err
		case len(h.answer) > fshelper.MaxAnswer:
			return errors.New("the answer is too long")
		}
	}
}

// failed says how a helper ended that did not answer.
func (h *helper) failed(err error) error {
	status, wait := h.wait()
	switch {
	case wait != nil:
		return internal("failed to encode or decode fs sandbox helper message: " + wait.Error())
	case status.Exited() && status.ExitStatus() == 0:
		return internal("failed to encode or decode fs sandbox helper message: " + err.Error())
	default:
		return internal(fshelper.FailureText(status, h.stderr.Bytes()))
	}
}

// wait waits for the end of the helper, once.
func (h *helper) wait() (status syscall.WaitStatus, err error) {
	if h.child == nil {
		return 0, nil
	}
	_ = h.child.Stdin.Close()
	// One that does not end is not waited for.
	late := time.AfterFunc(helperEnd, h.child.Kill)
	h.noted.Wait()
	status, err = h.child.Wait()
	late.Stop()
	h.unhook()
	_ = h.child.Stdout.Close()
	_ = h.child.Stderr.Close()
	h.child = nil
	return status, err
}

// end ends the helper's input and waits for it.
func (h *helper) end() error {
	status, err := h.wait()
	if err == nil && status != 0 {
		return internal(fshelper.FailureText(status, h.stderr.Bytes()))
	}
	return err
}

// openConfined opens a handle in a helper of its own.
// Its end is the end of its input, not that of a context: a helper that is
// killed leaves the temporary file of an atomic write behind.
func (srv *Server) openConfined(intent *sandbox.Intent, mode execproto.OpenMode, line []byte) (*helper, error) {
	if mode != execproto.OpenReplace {
		intent = demote(intent)
	}
	h, err := srv.startHelper(context.Background(), intent)
	if err != nil {
		return nil, err
	}
	if _, err := h.ask(execproto.MethodFSOpen, line); err != nil {
		_ = h.end()
		return nil, err
	}
	return h, nil
}
