package websocket

import (
	"net"
	"slices"
	"sync"
	"time"
)

// gathered is a pool of buffers for the frames that Add collects, so that idle connections need
// no such memory.
var gathered = sync.Pool{New: func() any { b := make([]byte, 0, gatherBytes+gatherSpare); return &b }}

// Add collects a message, in a frame whose payload consists of parts. When there are enough
// frames for a system call, it writes them. Flush writes the rest. Add does not retain the
// parts.
func (c *Conn) Add(code Opcode, parts ...[]byte) error {
	return c.add(firstByte(code, true), parts...)
}

func (c *Conn) add(first byte, parts ...[]byte) error {
	if c.out == nil {
		c.out = *gathered.Get().(*[]byte)
	}
	if c.vector && len(parts) == 1 && len(parts[0]) >= vectorBytes {
		c.out = appendHead(c.out, first, 0, len(parts[0]))
		return c.writeGathered(parts[0])
	}
	c.out = appendFrame(c.out, first, c.client, parts...)
	if len(c.out) < gatherBytes {
		return nil
	}
	return c.Flush()
}

// Gathered returns how many bytes Flush would write.
func (c *Conn) Gathered() int { return len(c.out) }

// Flush writes the frames that Add has collected, in one system call.
func (c *Conn) Flush() error {
	if c.out == nil {
		return nil
	}
	return c.writeGathered(nil)
}

// writeGathered writes the collected frames, and then more.
func (c *Conn) writeGathered(more []byte) error {
	c.turn <- struct{}{}
	err := c.write(c.out, more)
	<-c.turn
	if buffer := c.out[:0]; cap(buffer) <= gatherBytes+gatherSpare {
		gathered.Put(&buffer)
	}
	c.out = nil
	return err
}

// WriteText writes a text message, in fragments if it is long.
func (c *Conn) WriteText(text []byte) error {
	code := Text
	for chunk := range slices.Chunk(text, gatherBytes) {
		text = text[len(chunk):]
		if err := c.add(firstByte(code, len(text) == 0), chunk); err != nil {
			return err
		}
		code = opContinuation
	}
	if code == Text { // the message is empty
		_ = c.add(firstByte(code, true))
	}
	return c.Flush()
}

// Open implements Transport. It reserves a medium head, which is enough for most messages.
func (c *Conn) Open(b []byte) []byte { return append(b, "    "[:mediumHead]...) }

// Seal implements Transport.
func (c *Conn) Seal(b []byte, start int) []byte { return sealText(b, start, c.client) }

// WriteFrames implements Transport.
func (c *Conn) WriteFrames(frames []byte) error {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	for slice := range slices.Chunk(frames, writeSlice) {
		if err := c.write(slice, nil); err != nil {
			return err
		}
	}
	return nil
}

// Fragment implements Transport. It writes the frame's head directly before the text, so that
// one write sends both.
func (c *Conn) Fragment(part []byte, first, last bool) error {
	code := opContinuation
	if first {
		code = Text
	}
	text := part[FragmentRoom:]
	if c.client {
		return c.WriteFrames(appendFrame(nil, firstByte(code, last), true, text))
	}
	start := FragmentRoom - headSize(len(text))
	appendHead(part[:start], firstByte(code, last), 0, len(text))
	return c.WriteFrames(part[start:])
}

// write writes b and more: both in one system call if the connection supports that. The caller
// holds turn. After an error no more can be written, because a frame may be incomplete.
func (c *Conn) write(b, more []byte) error {
	err := c.beginWrite()
	if err != nil {
		return err
	}
	if more == nil {
		_, err = c.net.Write(b)
	} else {
		_, err = (&net.Buffers{b, more}).WriteTo(c.net)
	}
	if err != nil {
		c.mu.Lock()
		c.writeErr = err
		c.mu.Unlock()
	} else if c.o.CountWrites {
		c.alive()
	}
	return err
}

// beginWrite sets the deadline of a write.
func (c *Conn) beginWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writeErr == nil && !c.ended && c.o.WriteTimeout > 0 {
		return c.net.SetWriteDeadline(time.Now().Add(c.o.WriteTimeout))
	}
	return c.writeErr
}

// receivePing stores a ping, which routineControl answers. The reader must not wait for the
// writer: otherwise two ends that both write would wait for each other. Only the newest ping is
// answered (RFC 6455, section 5.5.3), so a peer that sends pings without reading the answers
// fills no queue.
func (c *Conn) receivePing(data string) error {
	c.alive()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pong = append(make([]byte, 0, len(data)), data...)
	c.startControl()
	return nil
}

// probe sends a ping. A timer calls it again.
func (c *Conn) probe() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ping = true
	c.pinger.Reset(c.o.Ping)
	c.startControl()
}

// startControl starts routineControl. The caller holds mu.
func (c *Conn) startControl() {
	if !c.writing && !c.ended {
		c.writing = true
		c.control.Go(c.routineControl)
	}
}

// routineControl writes pings and pongs until none is pending. If a write fails, the connection
// is broken, and the reader returns the reason.
func (c *Conn) routineControl() {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	for {
		frames := c.takeControl()
		if frames == nil {
			return
		}
		if c.write(frames, nil) != nil {
			_ = c.net.Close()
		}
	}
}

// takeControl returns the pending ping and pong, or nil.
func (c *Conn) takeControl() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	var frames []byte
	if c.pong != nil {
		frames = appendFrame(frames, firstByte(opPong, true), c.client, c.pong)
	}
	if c.ping {
		frames = appendFrame(frames, firstByte(opPing, true), c.client)
	}
	c.pong, c.ping = nil, false
	if c.ended {
		frames = nil
	}
	c.writing = frames != nil
	return frames
}
