package websocket

import (
	"bytes"
	"io"
	"sync"
)

// bufferClasses are the capacities of message buffers. A buffer grows from one capacity to the
// next while bytes arrive, so that a peer cannot make the server allocate memory by announcing
// a length. The last class but one has space for the base64 text of 32 MiB: two messages of
// that size fit into a client's half of the server's memory for messages.
var bufferClasses = [...]int{2 << 10, 32 << 10, 64 << 10, 256 << 10, 2 << 20, 16 << 20, 44 << 20, 64<<20 + 128<<10}

// pools contain free buffers of the classes up to 2 MiB. Larger buffers are not retained.
var pools [5]sync.Pool

// Message is one incoming message. Its bytes belong to the holder until
// Release and may be changed.
type Message struct {
	buf    []byte
	class  int
	memory Memory // nil: the memory is not counted
	taken  int    // bytes taken from memory
	// Text means that the message arrived in a text frame. Its bytes are then valid UTF-8.
	Text bool
}

// Bytes returns the message. The bytes are invalid after Release.
func (m *Message) Bytes() []byte { return m.buf }

// Release returns the buffer to its pool. It must be called at most once.
func (m *Message) Release() {
	giveBuffer(m.buf, m.class)
	m.buf = nil
	if m.taken > 0 {
		m.memory.Give(m.taken)
		m.taken = 0
	}
}

func giveBuffer(b []byte, class int) {
	if class >= 0 && class < len(pools) {
		b = b[:0]
		pools[class].Put(&b)
	}
}

// NewMessage returns a message that takes ownership of the bytes.
func NewMessage(b []byte) *Message { return &Message{buf: b, class: -1} }

// Fit limits the unused memory of a message: if its buffer is more than twice as
// large as the message, the message is copied.
func (m *Message) Fit() {
	if cap(m.buf) <= 2*len(m.buf) {
		return
	}
	text := bytes.Clone(m.buf)
	giveBuffer(m.buf, m.class)
	m.buf, m.class = text, -1
}

// newMessage returns an empty message of the smallest class with space for size bytes. If size
// is too large for all classes, it uses the first class.
func newMessage(size int) *Message {
	for class, room := range bufferClasses {
		if room >= size {
			return &Message{buf: takeBuffer(class), class: class}
		}
	}
	return &Message{buf: takeBuffer(0)}
}

func takeBuffer(class int) []byte {
	if class < len(pools) {
		if b, ok := pools[class].Get().(*[]byte); ok {
			return *b
		}
	}
	return make([]byte, 0, bufferClasses[class])
}

// grow makes space for more bytes, up to limit bytes in total. It waits until Memory permits
// that.
func (m *Message) grow(limit int) error {
	old := m.buf
	oldClass := m.class
	next := 4 * cap(old)
	m.class = -1
	for i, size := range bufferClasses {
		if size > cap(old) {
			m.class, next = i, size
			break
		}
	}
	if m.class < 0 {
		next = min(next, limit+1)
	}
	if m.memory != nil {
		taken, err := m.memory.Take(next - cap(old))
		if err != nil {
			m.class = oldClass
			return err
		}
		m.taken += taken
	}
	if m.class >= 0 {
		m.buf = takeBuffer(m.class)
	} else {
		m.buf = make([]byte, 0, next)
	}
	m.buf = append(m.buf, old...)
	giveBuffer(old, oldClass)
	return nil
}

// readAll appends all of r. It returns a *TooLargeError if the message would exceed limit, and
// an error of Memory.
func (m *Message) readAll(r io.Reader, limit int) error {
	for {
		if len(m.buf) > limit {
			return &TooLargeError{Limit: limit}
		}
		if len(m.buf) == cap(m.buf) {
			if err := m.grow(limit); err != nil {
				return err
			}
		}
		n, err := r.Read(m.buf[len(m.buf):cap(m.buf)])
		m.buf = m.buf[:len(m.buf)+n]
		if err == io.EOF {
			if len(m.buf) > limit {
				return &TooLargeError{Limit: limit}
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}
