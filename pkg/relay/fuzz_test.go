package relay

import (
	"encoding/binary"
	"testing"

	"codex.internal/pkg/relay/frame"
	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/wire/websocket"
)

// FuzzExecutor sends arbitrary messages of a relay to an executor that has one stream. Each message
// follows its length, which takes two bytes. For any input, the stored data is bounded, and
// everything ends with the connection.
func FuzzExecutor(f *testing.F) {
	channel := noise.Channel{EnvironmentID: where.EnvironmentID, ExecutorRegistrationID: where.RegistrationID, StreamID: "a"}
	_, message1, err := noise.NewInitiator(identity(), identity().PublicKey(), channel, []byte("please"))
	if err != nil {
		f.Fatal(err)
	}
	seed := func(frames ...frame.Frame) {
		var messages []byte
		for _, message := range frames {
			m, err := message.Append(nil)
			if err != nil {
				f.Fatal(err)
			}
			messages = append(binary.BigEndian.AppendUint16(messages, uint16(len(m))), m...)
		}
		f.Add(messages)
	}
	hello := frame.Frame{StreamID: "a", Kind: frame.Handshake, Payload: message1}
	record := frame.Frame{StreamID: "a", Kind: frame.Data, Seq: 1, Payload: []byte("x")}
	seed(frame.Frame{StreamID: "a", Kind: frame.Resume}, hello, hello, record)
	seed(hello, frame.Frame{StreamID: "a", Kind: frame.Heartbeat, Ack: 3, AckBits: 5}, frame.Frame{StreamID: "a", Kind: frame.Resume, Seq: 7}, record, resetOf("a", "x"))
	seed(record, record, resetOf("b", "y"))
	f.Fuzz(func(t *testing.T, messages []byte) {
		e := NewExecutor(ExecutorOptions{Identity: identity(), Validate: yes, Serve: func(c websocket.Transport) {
			for {
				m, err := c.ReadMessage()
				if err != nil {
					return
				}
				m.Release()
			}
		}})
		l := &link{slots: make(chan struct{}, recordQueue), records: make(chan queued, recordQueue), control: make(chan frame.Frame, controlQueue), closing: make(chan struct{})}
		l.once.Do(func() { close(l.closing) }) // there is no websocket to close
		v := newExecutorConn(t.Context(), e, l, where)
		for len(messages) >= 2 {
			n := min(int(binary.BigEndian.Uint16(messages)), len(messages)-2)
			if f, err := frame.Decode(messages[2 : 2+n]); err == nil {
				v.receive(f)
			}
			messages = messages[2+n:]
		}
		v.end()
		v.wg.Wait()
		e.endStreams(errAborted)
		e.wg.Wait()
		if len(e.all()) > 0 || v.validating > 0 {
			t.Errorf("%d streams and %d questions are left", len(e.all()), v.validating)
		}
	})
}
