package execserver

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/wire/b64"
	"codex.internal/pkg/wire/websocket"
)

// errEnded is the error of a message for a connection that has ended.
var errEnded = errors.New("the connection ended")

// outbox is the sending side of a connection. Any goroutine may append messages, which are
// encoded directly into the queue. One goroutine, routineWriter, sends all queued messages with
// as few system calls as possible. When the queue is full, appending blocks: that is the
// backpressure on processes, files and HTTP bodies.
//
// States: open; ended (err is set, and no more messages are accepted; queued messages are still
// sent); closed (the writer has returned).
type outbox struct {
	t      websocket.Transport
	events *observe.Events
	// wire is a lock. The goroutine that writes to t holds it: routineWriter or sendLarge. Its
	// capacity is 1.
	wire chan struct{}

	mu    sync.Mutex
	queue []byte        // sealed frames
	taken chan struct{} // closed and replaced when the writer takes the queue
	err   error

	work   chan struct{} // wakes the writer; capacity 1
	ended  chan struct{} // closed with err
	closed chan struct{} // closed when the writer has returned
}

func newOutbox(t websocket.Transport, events *observe.Events) *outbox {
	return &outbox{
		t:      t,
		events: events,
		wire:   make(chan struct{}, 1),
		taken:  make(chan struct{}),
		work:   make(chan struct{}, 1),
		ended:  make(chan struct{}),
		closed: make(chan struct{}),
	}
}

// frameBuffers is a pool of queue buffers, so that idle connections need none.
var frameBuffers = sync.Pool{New: func() any { b := make([]byte, 0, keepBuffer); return &b }}

// send waits for space and appends one message. encode appends the message to
// its argument. send returns errEnded if the outbox has ended, or the context's
// error. It does not allocate, because encode does not escape.
func (o *outbox) send(ctx context.Context, encode func(b []byte) []byte) error {
	if err := o.lockWithSpace(ctx); err != nil {
		return err
	}
	o.append(encode)
	o.mu.Unlock()
	o.wake()
	return nil
}

// drain sends the queued messages. It returns when the kernel has accepted them or the outbox
// has ended.
func (o *outbox) drain(ctx context.Context) {
	select {
	case o.wire <- struct{}{}:
	case <-o.ended:
		return
	case <-ctx.Done():
		return
	}
	o.flushOrAbort()
}

// sendNow sends the queued messages, unless another goroutine sends at the moment. It returns
// when the kernel has accepted them.
func (o *outbox) sendNow() {
	select {
	case o.wire <- struct{}{}:
		o.flushOrAbort()
	default:
	}
}

// flushOrAbort sends the queued messages and releases wire, which the caller holds.
func (o *outbox) flushOrAbort() {
	if err := o.flush(); err != nil {
		_ = o.t.Abort()
	}
	<-o.wire
	o.wake()
}

// offer appends one message if it fits, and drops it otherwise.
func (o *outbox) offer(encode func(b []byte) []byte) {
	o.mu.Lock()
	fits := o.err == nil && len(o.queue) < queueBytes
	if fits {
		o.append(encode)
	}
	o.mu.Unlock()
	if fits {
		o.wake()
	}
}

// lockWithSpace waits until the queue has space, and returns with the lock held. If it returns
// an error, it does not hold the lock.
func (o *outbox) lockWithSpace(ctx context.Context) error {
	for {
		o.mu.Lock()
		if o.err != nil {
			o.mu.Unlock()
			return errEnded
		}
		if len(o.queue) < queueBytes {
			return nil
		}
		taken := o.taken
		o.mu.Unlock()
		select {
		case <-taken:
		case <-o.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (o *outbox) append(encode func(b []byte) []byte) {
	if o.queue == nil {
		o.queue = *frameBuffers.Get().(*[]byte)
	}
	start := len(o.queue)
	o.queue = o.t.Seal(encode(o.t.Open(o.queue)), start)
}

func (o *outbox) wake() {
	select {
	case o.work <- struct{}{}:
	default:
	}
}

// end makes the outbox refuse further messages. Queued messages are still sent.
func (o *outbox) end() {
	o.mu.Lock()
	if o.err == nil {
		o.err = errEnded
		close(o.ended)
	}
	o.mu.Unlock()
	o.wake()
}

// routineWriter sends until the outbox has ended and is empty, or the
// connection breaks.
func (o *outbox) routineWriter() {
	defer close(o.closed)
	defer o.end()
	for {
		<-o.work
		o.wire <- struct{}{}
		err := o.flush()
		<-o.wire
		if err != nil {
			_ = o.t.Abort()
			return
		}
		o.mu.Lock()
		over := o.err != nil && len(o.queue) == 0
		o.mu.Unlock()
		if over {
			return
		}
	}
}

// flush writes all queued messages. The caller holds wire.
func (o *outbox) flush() error {
	for {
		batch := o.take()
		if len(batch) == 0 {
			return nil
		}
		err := o.t.WriteFrames(batch)
		o.events.BytesMoved.Tell(observe.Bytes{Flow: observe.Sent, N: len(batch)})
		batch = batch[:0]
		frameBuffers.Put(&batch)
		if err != nil {
			return err
		}
	}
}

// take empties the queue.
func (o *outbox) take() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	batch := o.queue
	o.queue = nil
	if len(batch) > 0 {
		close(o.taken)
		o.taken = make(chan struct{})
	}
	return batch
}

// finish sends the queued messages and closes the connection. If that takes longer than d, it
// aborts the connection.
func (o *outbox) finish(d time.Duration, code int, reason string) {
	o.end()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-o.closed:
		_ = o.t.Close(code, reason)
	case <-timer.C:
		// The client does not read, so it would not read a close frame either.
		_ = o.t.Abort()
		<-o.closed
	}
}

// sendLarge sends a message that is too large for the queue: head, the base64 text of the data
// that next returns, and tail. If next returns an error, the message is incomplete and the
// connection must be closed.
func (o *outbox) sendLarge(ctx context.Context, head []byte, next reply.Source, tail []byte) error {
	select {
	case o.wire <- struct{}{}:
	case <-o.ended:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() {
		<-o.wire
		o.wake()
	}()
	if err := o.flush(); err != nil {
		return err
	}
	buffers := largeBuffers.Get().(*[2][]byte)
	defer largeBuffers.Put(buffers)
	raw, part := buffers[0], buffers[1][:websocket.FragmentRoom]
	part = append(part, head...)
	for first := true; ; first = false {
		data, err := next(raw)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		last := err != nil
		part = b64.Append(part, data)
		if last {
			part = append(part, tail...)
		}
		o.events.BytesMoved.Tell(observe.Bytes{Flow: observe.Sent, N: len(part) - websocket.FragmentRoom})
		if err := o.t.Fragment(part, first, last); err != nil {
			_ = o.t.Abort()
			return err
		}
		if last {
			return nil
		}
		part = part[:websocket.FragmentRoom]
	}
}

// largeBuffers is a pool of buffers for sendLarge: one for the data, and one for its text with
// space for a head that names a file or an HTTP response.
var largeBuffers = sync.Pool{New: func() any {
	const headRoom = 4 << 10
	return &[2][]byte{
		make([]byte, reply.Chunk),
		make([]byte, 0, websocket.FragmentRoom+headRoom+b64.Len(reply.Chunk)),
	}
}}
