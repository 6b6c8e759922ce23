package process

import (
	"bytes"
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// WriteStatus is the outcome of a write.
type WriteStatus string

// The outcomes of Write. WriteUnknown is for callers that have no process.
const (
	WriteAccepted    WriteStatus = "accepted"
	WriteStdinClosed WriteStatus = "stdinClosed"
	WriteUnknown     WriteStatus = "unknownProcess"
)

// WriteResult is the outcome of a write. Err is set if the write failed for a reason other than a
// closed stdin.
type WriteResult struct {
	Status WriteStatus
	Err    error
}

// stdin is the input of a process: a queue of writes. While the pipe has space, a write goes
// directly into it. If the pipe is full, a goroutine serves the queue until it is empty. Queued
// writes are accepted in order as long as the accepted ones have at most maxHeldInput bytes
// together. The others wait.
//
// stdin is in one of three states: open; ending, when a close is queued and no more input is
// accepted; and shut.
type stdin struct {
	mu      sync.Mutex
	file    File // nil: no stdin
	tty     bool
	queue   []*input
	held    int               // bytes of the queued inputs that are accepted
	waiting int               // how many queued inputs are not accepted: the last ones
	queued  map[string]*input // accepted writes that have an id
	serving bool              // the goroutine runs
	ending  bool
	shutNow bool
	ids     map[string]bool // of writes that were accepted
	idOrder []string        // oldest first; a ring once it is full
	idNext  int
	wg      *sync.WaitGroup
}

// input is one queued write, or the end of the input.
type input struct {
	data  []byte
	id    *string
	done  []func(WriteResult) // one per request that sent this write and waits
	close func(error)         // set for the end of the input

	accepted bool
	buffer   *[]byte // the buffer that holds data; nil: data has memory of its own
}

// Write queues data for the process's stdin, after the earlier writes. It never blocks. done is
// called once, from this or another goroutine, when the data is accepted or rejected; data must not
// change until then. Data is accepted when it is in the pipe or held for the pipe; at most
// maxHeldInput bytes are held. If an earlier write with the same id was accepted, the write is
// accepted too, but not repeated. If the earlier one still waits, both get the same result.
// Accepted input that the process does not read before it ends is lost, like input in a pipe.
func (p *Process) Write(data []byte, id *string, done func(WriteResult)) {
	in := &input{data: data, id: id, done: []func(WriteResult){done}}
	if result, finished := p.stdin.push(in); finished {
		done(result)
	}
}

// CloseStdin ends the input after the earlier writes. A pipe is closed; a terminal gets its
// end-of-file character. done is called once.
func (p *Process) CloseStdin(done func(error)) {
	if result, finished := p.stdin.push(&input{close: done}); finished {
		done(result.Err)
	}
}

// push executes in at once and returns its result and true. If that is not possible, it queues in
// and returns false.
func (s *stdin) push(in *input) (WriteResult, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.id != nil {
		if s.ids[*in.id] {
			return WriteResult{Status: WriteAccepted}, true
		}
		if first := s.queued[*in.id]; first != nil {
			first.done = append(first.done, in.done...)
			return WriteResult{}, false
		}
	}
	if s.file == nil || s.ending || s.shutNow {
		return WriteResult{Status: WriteStdinClosed}, true
	}
	if in.close != nil && !s.tty {
		s.ending = true
	}
	if len(s.queue) == 0 {
		n, err := s.try(in)
		if err == nil && n == len(in.data) {
			s.remember(in.id)
			return WriteResult{Status: WriteAccepted}, true
		}
		if err != nil {
			return failed(err), true
		}
		in.data = in.data[n:]
	}
	s.enqueue(in)
	if !s.serving {
		s.serving = true
		s.wg.Go(s.routineServe)
	}
	if in.accepted {
		return WriteResult{Status: WriteAccepted}, true
	}
	return WriteResult{}, false
}

// enqueue adds an input to the queue, and accepts it if it can. The caller holds the lock.
func (s *stdin) enqueue(in *input) {
	s.queue = append(s.queue, in)
	if s.waiting == 0 && s.accept(in) {
		return
	}
	s.waiting++
	if in.id == nil {
		return
	}
	if s.queued == nil {
		s.queued = make(map[string]*input)
	}
	s.queued[*in.id] = in
}

// accept accepts a write in the queue if there is space for its data. The end of the input is
// accepted only when it is executed. The caller holds the lock.
func (s *stdin) accept(in *input) bool {
	if in.close != nil || len(in.data) > maxHeldInput-s.held {
		return false
	}
	in.hold()
	in.accepted = true
	s.held += len(in.data)
	s.remember(in.id)
	return true
}

// hold copies the data, so that the caller may reuse its memory.
func (in *input) hold() {
	if len(in.data) < pooledInput || len(in.data) > inputBuffer {
		in.data = bytes.Clone(in.data)
		return
	}
	in.buffer = inputBuffers.Get().(*[]byte)
	in.data = append((*in.buffer)[:0], in.data...)
}

// release releases the data of a write that hold has copied.
func (in *input) release() {
	if in.buffer != nil {
		in.data = nil
		inputBuffers.Put(in.buffer)
		in.buffer = nil
	}
}

// inputBuffers holds buffers for reuse: when a client writes faster than the program reads, a write
// is always held.
var inputBuffers = sync.Pool{New: func() any { b := make([]byte, 0, inputBuffer); return &b }}

// dequeue removes the oldest input from the queue; err is its outcome. It returns the inputs that
// are now accepted. The caller holds the lock.
func (s *stdin) dequeue(err error) (accepted []*input) {
	in := s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	if in.accepted {
		s.held -= len(in.data)
		in.release()
		if err != nil {
			s.close() // later input would follow a gap
		}
	} else {
		s.stopWaiting(in)
		if err == nil {
			s.remember(in.id)
		}
	}
	for s.waiting > 0 && err == nil {
		next := s.queue[len(s.queue)-s.waiting]
		if !s.accept(next) {
			break
		}
		s.stopWaiting(next)
		accepted = append(accepted, next)
	}
	return accepted
}

// stopWaiting records that in has its result. The caller holds the lock.
func (s *stdin) stopWaiting(in *input) {
	s.waiting--
	if in.id != nil {
		delete(s.queued, *in.id)
	}
}

// failed returns the result of a write that failed with err.
func failed(err error) WriteResult {
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.EIO) || errors.Is(err, os.ErrClosed) {
		return WriteResult{Status: WriteStdinClosed}
	}
	return WriteResult{Err: err}
}

// try writes as much of in as it can without waiting, and returns how many
// bytes were written. The caller holds the lock.
func (s *stdin) try(in *input) (int, error) {
	data := in.data
	if in.close != nil {
		if !s.tty {
			return 0, s.file.Close()
		}
		data = s.eofChar()
	}
	if len(data) == 0 {
		return 0, nil
	}
	raw, err := s.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	n := 0
	cerr := raw.Write(func(fd uintptr) bool {
		for {
			n, err = unix.Write(int(fd), data)
			if !errors.Is(err, unix.EINTR) {
				return true
			}
		}
	})
	switch {
	case cerr != nil:
		return 0, cerr
	case errors.Is(err, unix.EAGAIN):
		n = 0
	case err != nil:
		return 0, err
	}
	if in.close != nil {
		if n == 0 {
			return 0, errors.New("the terminal accepts no input at the moment")
		}
		return 0, nil
	}
	return n, nil
}

// eofChar is the terminal's end-of-file character.
func (s *stdin) eofChar() []byte {
	eof := byte(4)
	if raw, err := s.file.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			if t, err := unix.IoctlGetTermios(int(fd), terminalAttributes); err == nil {
				eof = t.Cc[unix.VEOF]
			}
		})
	}
	return []byte{eof}
}

// routineServe writes the queue until it is empty.
func (s *stdin) routineServe() {
	for {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.serving = false
			s.mu.Unlock()
			return
		}
		in := s.queue[0]
		s.mu.Unlock()

		err := s.write(in)

		s.mu.Lock()
		accepted := s.dequeue(err)
		s.mu.Unlock()
		if !in.accepted {
			finish(in, err)
		}
		for _, in := range accepted {
			finish(in, nil)
		}
	}
}

// write executes in, and waits for space in the pipe. Closing the file ends the wait.
func (s *stdin) write(in *input) error {
	if in.close == nil {
		_, err := s.file.Write(in.data)
		return err
	}
	if s.tty {
		_, err := s.file.Write(s.eofChar())
		return err
	}
	return s.file.Close()
}

// finish reports the outcome of a queued input.
func finish(in *input, err error) {
	result := WriteResult{Status: WriteAccepted}
	if err != nil {
		result = failed(err)
	}
	if in.close != nil {
		in.close(result.Err)
		return
	}
	for _, done := range in.done {
		done(result)
	}
}

// shut closes the input permanently; queued writes fail.
func (s *stdin) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.close()
}

// close is shut for a caller that holds the lock.
func (s *stdin) close() {
	s.shutNow = true
	if s.file != nil {
		_ = s.file.Close()
	}
}

// remember stores the id of an accepted write. If it already has rememberedWrites ids, it replaces
// the oldest. The caller holds the lock.
func (s *stdin) remember(id *string) {
	if id == nil {
		return
	}
	if s.ids == nil {
		s.ids = make(map[string]bool)
	}
	s.ids[*id] = true
	if len(s.idOrder) < rememberedWrites {
		s.idOrder = append(s.idOrder, *id)
		return
	}
	delete(s.ids, s.idOrder[s.idNext])
	s.idOrder[s.idNext] = *id
	s.idNext = (s.idNext + 1) % rememberedWrites
}
