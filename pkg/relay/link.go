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
// Each record waits for a slot, in the order in which the streams asked, so that no
// stream starves. Control frames need no slot: the reader queues them and must not
// wait for the writer, or two ends that both write would wait for each other.
//
// States: open; closing (what is queued is still written); down (the writer has
// returned and the websocket is closed).
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

	// Of the writer: how many records ws has gathered, and the error after which it
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
		// Quoted: the URL may have control sequences for a terminal.
		quoted := strconv.Quote(shown)
		return nil, fmt.Errorf("failed to connect to exec-server websocket `%s`: %w", quoted[1:len(quoted)-1], errURL)
	}
	ws, err := websocket.Dial(ctx, address, websocket.DialOptions{
		Options: websocket.Options{Limit: frame.MaxFrame, Ping: o.ping, WriteTimeout: pieceTime},
		Header:  o.header, TLS: o.tls, Timeout: o.timeout, Buffer: bufferSize, Connect: o.connect,
		// The relay's body and reason phrase may repeat the query, which is a
		// credential: the error has only the status.
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

// read returns the next frame, whose payload is valid until the next call. With
// errNotBinary, frame.ErrUndecodable and frame.ErrInvalid only that
// message is bad; after any other error the link reads nothing more.
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

// badMessage reports whether an error of read is about one message only.
func badMessage(err error) bool {
	return errors.Is(err, errNotBinary) || errors.Is(err, frame.ErrUndecodable) || errors.Is(err, frame.ErrInvalid)
}

// reserve waits for a slot, which the next call of write uses. It reports false
// if the link or stop ended before.
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

// write queues a frame for which there is a slot.
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

// offer is push for frames that strangers can cause without limit. It leaves space
// in the queue for answers that other peers wait for.
func (l *link) offer(f frame.Frame) {
	if len(l.control) < controlOffer {
		l.push(f)
	}
}

// pushLast queues a stream's last frame behind its records, if there is space
// for it in time.
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

// close is shut, and waits for it.
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

// putRecord writes a frame that has a slot. Control frames that were queued before it
// go first, because one of them may begin its stream. At most controlQueue of them go
// first, so that new ones do not delay it for ever.
func (l *link) putRecord(q queued) {
	for n := 0; n < controlQueue && l.takeControl(); n++ {
	}
	l.gathered++
	l.put(q.Frame)
	q.record.release()
}

// put encodes a frame, and writes when enough data is buffered. If the link is
// broken, it only releases slots.
func (l *link) put(f frame.Frame) {
	var space [frame.MaxHead]byte
	head, payload, err := f.Split(space[:0])
	if err != nil {
		// A reset for an id that peers refuse would be refused too.
		l.log.Debug("frame not sent", "kind", f.Kind, "error", err)
		return
	}
	l.wrote(l.ws.Add(websocket.Binary, head, payload))
}

// flush writes the buffered frames in one system call.
func (l *link) flush() { l.wrote(l.ws.Flush()) }

// wrote releases the slots of records that are written, or never will be.
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

// farewell writes what is queued when the link closes, until the websocket is
// closed at the latest.
func (l *link) farewell() {
	for l.broken == nil && (l.takeRecord() || l.takeControl()) {
	}
	l.flush()
	_ = l.ws.Close(websocket.CloseNormal, "")
}

// isCloseFrame reports whether an error of read is an orderly close by the relay.
func isCloseFrame(err error) bool { return errors.Is(err, websocket.ErrClosed) }
