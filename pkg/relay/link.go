package relay

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"codex.internal/pkg/relay/frame"
	"codex.internal/pkg/wire/websocket"
)

// link is a websocket to the relay, for the frames of any number of streams.
// One goroutine, routineWriter, writes; another reads.
//
// Each record waits for a slot. Slots are given in the order of the requests, so that no stream
// starves. Control frames need no slot. The reader queues them and must not wait for the writer:
// otherwise two ends that both write could wait for each other.
//
// A link is in one of three states: open; closing, while the queued frames are still written; and
// down, when the writer has returned and the websocket is closed.
type link struct {
	ws      *websocket.Conn
	url     string // for logs, without secrets
	log     *slog.Logger
	slots   chan struct{} // held for each frame in records
	records chan queued
	control chan frame.Frame

	once    sync.Once
	closing chan struct{}
	force   *time.Timer // set once closing: ends a write that takes too long
	down    chan struct{}

	in bytes.Buffer // of the reader

	// These belong to the writer: how many records ws has gathered, and the error after which it
	// writes no more.
	gathered int
	broken   error
}

// linkOptions say how a link is made.
type linkOptions struct {
	header  http.Header   // of the request, besides the required ones
	tls     *tls.Config   // nil: the system's authorities are trusted
	timeout time.Duration // until the websocket is open
	ping    time.Duration // between probes of the relay; 0: no probes
	connect dialContext   // nil: a net.Dialer
	log     *slog.Logger
}

// dialContext makes a network connection, and ends with its context.
type dialContext = func(ctx context.Context, network, address string) (net.Conn, error)

// dialLink makes a websocket. The link ends with close. The error is an errURL, a
// *websocket.DialError, or ctx's.
func dialLink(ctx context.Context, address string, o linkOptions) (*link, error) {
	shown := websocket.PublicURL(address)
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "ws" && u.Scheme != "wss" {
		// The URL is quoted, because it may contain control sequences for a terminal.
		quoted := strconv.Quote(shown)
		return nil, fmt.Errorf("failed to connect to exec-server websocket `%s`: %w", quoted[1:len(quoted)-1], errURL)
	}
	ws, err := websocket.Dial(ctx, address, websocket.DialOptions{
		Options: websocket.Options{Limit: frame.MaxFrame, Ping: o.ping, WriteTimeout: pieceTime},
		Header:  o.header, TLS: o.tls, Timeout: o.timeout, Buffer: bufferSize, Connect: o.connect,
		// The error has only the status, because the relay's body and reason phrase may repeat the
		// query, which is a credential.
		Refused: func(res *http.Response) error {
			return fmt.Errorf("the relay answered %d %s", res.StatusCode, http.StatusText(res.StatusCode))
		},
	})
	if err != nil {
		return nil, err
	}
	l := &link{
		ws: ws, url: shown, log: o.log,
		slots: make(chan struct{}, recordQueue), records: make(chan queued, recordQueue), control: make(chan frame.Frame, controlQueue),
		closing: make(chan struct{}), down: make(chan struct{}),
	}
	go l.routineWriter() // close waits for it
	return l, nil
}

// read returns the next frame. Its payload is valid until the next call. After errNotBinary,
// frame.ErrUndecodable and frame.ErrInvalid the caller can continue to read, because only that
// message is bad. After any other error the link reads nothing more.
func (l *link) read() (frame.Frame, error) {
	l.in.Reset()
	code, err := l.ws.ReadTo(&l.in)
	if err != nil {
		return frame.Frame{}, err
	}
	if code != websocket.Binary {
		return frame.Frame{}, errNotBinary
	}
	return frame.Decode(l.in.Bytes())
}

// badMessage reports whether an error of read concerns only one message.
func badMessage(err error) bool {
	return errors.Is(err, errNotBinary) || errors.Is(err, frame.ErrUndecodable) || errors.Is(err, frame.ErrInvalid)
}

// reserve waits for a slot, which the next call of write uses. It returns false if the link or stop
// ends first.
func (l *link) reserve(stop <-chan struct{}) bool {
	select {
	case <-l.closing:
		return false
	default:
	}
	select {
	case l.slots <- struct{}{}:
		return true
	case <-l.closing:
	case <-stop:
	}
	return false
}

// release gives back a slot that is not used.
func (l *link) release() { <-l.slots }

// queued is a frame that waits for the writer with a slot.
type queued struct {
	frame.Frame
	record *record // the owner of the payload; nil: the garbage collector
}

// write queues a frame. The caller must have reserved a slot.
func (l *link) write(q queued) { l.records <- q }

// push queues a frame without a slot and reports whether there was space.
func (l *link) push(f frame.Frame) bool {
	select {
	case l.control <- f:
		return true
	default:
		return false
	}
}

// offer is push for frames that any stranger can cause without limit. It leaves space in the queue
// for answers for which other peers wait.
func (l *link) offer(f frame.Frame) {
	if len(l.control) < controlOffer {
		l.push(f)
	}
}

// pushLast queues a stream's last frame after its records, unless the queue stays full for too
// long.
func (l *link) pushLast(f frame.Frame) {
	late := make(chan struct{})
	timer := time.AfterFunc(closeTime, func() { close(late) })
	defer timer.Stop()
	if l.reserve(late) {
		l.write(queued{Frame: f})
		return
	}
	l.push(f)
}

// shut makes the writer write the queued frames, within closeTime, and close the
// websocket, so that read ends too.
func (l *link) shut() {
	l.once.Do(func() {
		l.force = time.AfterFunc(closeTime, func() { _ = l.ws.Abort() })
		close(l.closing)
	})
}

// close calls shut, and waits until the link is down.
func (l *link) close() {
	l.shut()
	<-l.down
}

// routineWriter writes until the link is closed or breaks.
func (l *link) routineWriter() {
	defer close(l.down)
	defer func() {
		l.shut()
		l.force.Stop()
		_ = l.ws.Abort()
	}()
	for {
		err := l.writeNext()
		if err == nil {
			continue
		}
		if errors.Is(err, errLinkDown) {
			l.farewell()
		} else {
			l.log.Debug("relay websocket broke", "error", err)
		}
		return
	}
}

// writeNext writes the next frame, together with others that wait.
func (l *link) writeNext() error {
	select {
	case f := <-l.control:
		l.put(f)
	case q := <-l.records:
		l.putRecord(q)
	case <-l.closing:
		return errLinkDown
	}
	for l.ws.Gathered() > 0 && (l.takeControl() || l.takeRecord()) {
	}
	l.flush()
	return l.broken
}

// takeControl writes a control frame, if one waits.
func (l *link) takeControl() bool {
	select {
	case f := <-l.control:
		l.put(f)
		return true
	default:
		return false
	}
}

// takeRecord writes a record, if one waits.
func (l *link) takeRecord() bool {
	select {
	case q := <-l.records:
		l.putRecord(q)
		return true
	default:
		return false
	}
}

// putRecord writes a frame that has a slot. It first writes control frames that were queued
// earlier, because one of them may begin the frame's stream. It writes at most controlQueue of
// them, so that new ones cannot delay the frame forever.
func (l *link) putRecord(q queued) {
	for n := 0; n < controlQueue && l.takeControl(); n++ {
	}
	l.gathered++
	l.put(q.Frame)
	q.record.release()
}

// put encodes a frame, and writes when enough data is buffered. If the link is broken, it only
// releases slots.
func (l *link) put(f frame.Frame) {
	var space [frame.MaxHead]byte
	head, payload, err := f.Split(space[:0])
	if err != nil {
		// The frame may be a reset for an id that peers refuse. They would refuse the reset too.
		l.log.Debug("frame not sent", "kind", f.Kind, "error", err)
		return
	}
	l.wrote(l.ws.Add(websocket.Binary, head, payload))
}

// flush writes the buffered frames in one system call.
func (l *link) flush() { l.wrote(l.ws.Flush()) }

// wrote releases the slots of records that are written or will never be written.
func (l *link) wrote(err error) {
	if l.broken == nil {
		l.broken = err
	}
	if l.ws.Gathered() > 0 {
		return
	}
	for ; l.gathered > 0; l.gathered-- {
		l.release()
	}
}

// farewell writes the queued frames when the link closes. It stops at the latest when the websocket
// is closed.
func (l *link) farewell() {
	for l.broken == nil && (l.takeRecord() || l.takeControl()) {
	}
	l.flush()
	_ = l.ws.Close(websocket.CloseNormal, "")
}

// isCloseFrame reports whether an error of read is an orderly close by the relay.
func isCloseFrame(err error) bool { return errors.Is(err, websocket.ErrClosed) }
