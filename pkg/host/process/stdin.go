//go:build linux || darwin

package process

import (
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

// WriteResult is the outcome of a write. Err is set if it failed for another
// reason than a closed stdin.
type WriteResult struct {
	Status WriteStatus
	Err    error
}

// stdin is the input of a process: a queue of writes that goes straight into
// the pipe while it has room. When it has none, a goroutine serves the queue
// until it is empty again.
//
// States: open; ending (a close is queued, nothing more is taken); shut.
type stdin struct {
	mu      sync.Mutex
	file    *os.File // nil: there is none
	tty     bool
	queue   []*input
	queued  map[string]*input // the queued writes that have an id
	serving bool              // the goroutine runs
	ending  bool
	shutNow bool
	ids     map[string]bool // of writes that were accepted
	idOrder []string        // oldest first, a ring once it is full
	idNext  int
	wg      *sync.WaitGroup
}

// input is one queued write, or the end of the input.
type input struct {
	data  []byte
	id    *string
	done  []func(WriteResult) // one per request that sent this write
	close func(error)         // set for the end of the input
}

// Write queues data for the process's stdin, behind the earlier writes, and
// never blocks. done is called once, from this or another goroutine, when the
// pipe has taken the data or never will; data must not change until then. A
// write with the id of an earlier one that was accepted is accepted and not
// repeated; while the earlier one is queued it waits too and gets the same
// result.
func (p *Process) Write(data []byte, id *string, done func(WriteResult)) {
	in := &input{data: data, id: id, done: []func(WriteResult){done}}
	if result, finished := p.stdin.push(in); finished {
		done(result)
	}
}

// CloseStdin ends the input after the earlier writes: a pipe is closed, a
// terminal gets its end-of-file character. done is called once.
func (p *Process) CloseStdin(done func(error)) {
	if result, finished := p.stdin.push(&input{close: done}); finished {
		done(result.Err)
	}
}

// push carries out in at once and returns its result and true, or queues it and
// returns false.
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
	return WriteResult{}, false
}

// enqueue adds to the queue. The caller holds the lock.
func (s *stdin) enqueue(in *input) {
	s.queue = append(s.queue, in)
	if in.id == nil {
		return
	}
	if s.queued == nil {
		s.queued = make(map[string]*input)
	}
	s.queued[*in.id] = in
}

// dequeue removes the oldest input from the queue, whose outcome is err. The
// caller holds the lock.
func (s *stdin) dequeue(err error) {
	in := s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	if in.id == nil {
		return
	}
	delete(s.queued, *in.id)
	if err == nil {
		s.remember(in.id)
	}
}

// failed returns the result of a write that failed with err.
func failed(err error) WriteResult {
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.EIO) || errors.Is(err, os.ErrClosed) {
		return WriteResult{Status: WriteStdinClosed}
	}
	return WriteResult{Err: err}
}

// try carries out as much of in as it can without waiting, and returns how many
// bytes of its data were written. The caller holds the lock.
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
			return 0, errors.New("the terminal takes no input at the moment")
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
		s.dequeue(err)
		s.mu.Unlock()
		finish(in, err)
	}
}

// write carries out in and waits for room. Closing the file ends the wait.
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

// shut closes the input for good; queued writes fail.
func (s *stdin) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shutNow = true
	if s.file != nil {
		_ = s.file.Close()
	}
}

// remember records the id of an accepted write, in the place of the oldest if
// there are rememberedWrites. The caller holds the lock.
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
