package harness

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
)

// RandomBytes returns the output of emit for a seed, on stdout (stream 1) or stderr (stream 2).
func RandomBytes(seed uint64, stream byte) *rand.ChaCha8 {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	key[8] = stream
	return rand.NewChaCha8(key)
}

// Checked is a writer that accepts only the expected bytes. So it proves that each byte arrived
// once and in order.
type Checked struct {
	name   string
	length int64 // number of expected bytes

	mu   sync.Mutex // another goroutine may read the progress meanwhile
	want *rand.ChaCha8
	got  int64
	buf  []byte
}

func Expect(name string, seed uint64, stream byte, length int64) *Checked {
	return &Checked{name: name, length: length, want: RandomBytes(seed, stream)}
}

// Write returns an error at the first byte that is wrong or beyond the expected length.
func (c *Checked) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.got+int64(len(b)) > c.length {
		return 0, fmt.Errorf("%s: %d bytes came after %d, but only %d were written", c.name, len(b), c.got, c.length)
	}
	c.buf = append(c.buf[:0], b...)
	_, _ = c.want.Read(c.buf) // it never fails
	if !bytes.Equal(c.buf, b) {
		i := 0
		for b[i] == c.buf[i] {
			i++
		}
		return 0, fmt.Errorf("%s: byte %d is wrong, in a chunk of %d from %d on", c.name, c.got+int64(i), len(b), c.got)
	}
	c.got += int64(len(b))
	return len(b), nil
}

// Extend increases the number of expected bytes by n.
func (c *Checked) Extend(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.length += n
}

// Complete returns an error if bytes are missing.
func (c *Checked) Complete() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.got != c.length {
		return fmt.Errorf("%s: %d of %d bytes came", c.name, c.got, c.length)
	}
	return nil
}

// String describes how many bytes have arrived.
func (c *Checked) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%s %d/%d", c.name, c.got, c.length)
}
