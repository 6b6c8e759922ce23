package execclient

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"codex.internal/pkg/host/peercred"
	"codex.internal/pkg/wire/websocket"
)

// Transport carries whole JSON-RPC messages. Read and Write are used by one
// goroutine each; Close ends both.
type Transport interface {
	// Read returns the next message, which the caller may keep. It returns io.EOF if the server
	// ended the connection normally.
	Read() ([]byte, error)
	Write(message []byte) error
	Close() error
}

// Dialer makes connections to one server: the first, and others after a loss. An error with a
// method Retryable() bool that returns true, such as *DialError, is worth another attempt. A
// dialer with a method RetryPause(attempt int) time.Duration determines the time before each
// attempt to resume a session.
type Dialer interface {
	Dial(ctx context.Context) (Transport, error)
}

// DialerOf returns a Dialer for d, whose connections have their own type, such as
// *relay.Harness.
func DialerOf[T Transport](d interface {
	Dial(ctx context.Context) (T, error)
	RetryPause(attempt int) time.Duration
},
) Dialer {
	return dialerOf[T]{d}
}

// typedDialer is the parameter of DialerOf.
type typedDialer[T Transport] interface {
	Dial(ctx context.Context) (T, error)
	RetryPause(attempt int) time.Duration
}

type dialerOf[T Transport] struct{ typedDialer[T] }

// Dial implements Dialer.
func (d dialerOf[T]) Dial(ctx context.Context) (Transport, error) {
	c, err := d.typedDialer.Dial(ctx)
	if err != nil {
		return nil, err // c may be a nil pointer, which would make a non-nil Transport
	}
	return c, nil
}

// webSocketDialer dials ws://, wss:// and unix:// URLs.
type webSocketDialer struct {
	url string
	o   Options
}

// Dial connects. A token is only sent if it cannot be intercepted: over wss, or to a loopback
// address or a Unix socket at which a server of a trusted user listens.
func (d *webSocketDialer) Dial(ctx context.Context) (Transport, error) {
	u, err := url.Parse(d.url)
	_, local := websocket.SocketPath(d.url)
	if !local && (err != nil || u.Host == "" || u.Scheme != "ws" && u.Scheme != "wss") {
		return nil, fmt.Errorf("invalid exec-server URL %q: expected ws://HOST:PORT, wss://HOST:PORT or unix:///PATH", websocket.PublicURL(d.url))
	}
	header := http.Header{}
	if d.o.UserAgent != "" {
		header.Set("User-Agent", d.o.UserAgent)
	}
	if d.o.BearerToken != "" {
		if !local && u.Scheme != "wss" && !websocket.IsLoopback(u.Hostname()) {
			return nil, fmt.Errorf("the connection token is not sent to %s: it could be read on the way; use wss:// or a loopback address", websocket.PublicURL(d.url))
		}
		header.Set("Authorization", "Bearer "+d.o.BearerToken)
	}
	connect := d.o.Connect
	if d.o.BearerToken != "" && connect == nil && (local || u.Scheme == "ws") {
		connect = d.connect
	}
	c, err := websocket.Dial(ctx, d.url, websocket.DialOptions{
		Options: websocket.Options{Limit: maxMessage, Ping: max(d.o.KeepAlive, 0)},
		Header:  header, TLS: d.o.TLS, Timeout: d.o.ConnectTimeout, Buffer: socketBuffer, Refused: refusal,
		Connect: connect,
	})
	if err != nil {
		var e *DialError
		if errors.As(err, &e) && e.Status == 0 {
			e.Err = reasonOf(e.Err)
		}
		return nil, err
	}
	return &webSocket{c: c}, nil
}

// ErrUntrustedServer is the error of a server on this machine that gets no token: see Options.BearerToken.
var ErrUntrustedServer = errors.New("the connection token is not sent")

// connect makes a connection within this machine over which the token may be sent. Scenario: the server is restarted, and
// another user listens on its port, or at its path in /tmp (TestTokensGoToTrustedUsers).
func (d *webSocketDialer) connect(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	uid, err := peercred.ServerOf(conn)
	switch own := os.Geteuid(); {
	case errors.Is(err, peercred.ErrUnsupported) || d.o.ServerUser == AnyUser:
		return conn, nil
	case err != nil:
		err = fmt.Errorf("%w: whose server it is cannot be told: %w", ErrUntrustedServer, err)
	case uid != own && uid != 0 && uid != d.o.ServerUser:
		err = fmt.Errorf("%w: it is a server of user %d, and tokens are sent to those of user %d and of root", ErrUntrustedServer, uid, own)
	default:
		return conn, nil
	}
	_ = conn.Close()
	return nil, &net.OpError{Op: "check", Net: network, Addr: conn.RemoteAddr(), Err: err}
}

// webSocket is a Transport over a websocket.
type webSocket struct {
	c    *websocket.Conn
	buf  bytes.Buffer // for messages whose size is not known in advance
	code atomic.Int64 // code of the server's close frame; 0: the server has not closed the connection
}

// refusal returns the error for a response that refuses the upgrade, with up to 300 bytes of
// its body.
func refusal(res *http.Response) error {
	const most = 300
	text, _ := io.ReadAll(io.LimitReader(res.Body, most))
	return fmt.Errorf("the server answered %s: %s", res.Status, bytes.TrimSpace(text))
}

func (t *webSocket) Read() ([]byte, error) {
	t.buf.Reset()
	_, err := t.c.ReadTo(&t.buf)
	var closed *websocket.CloseError
	switch {
	case errors.As(err, &closed):
		t.code.Store(int64(closed.Code))
		if closed.Code == websocket.CloseNormal || closed.Reason == "" {
			return nil, io.EOF
		}
		return nil, fmt.Errorf("the server closed the connection: %s", closed.Reason)
	case errors.Is(err, websocket.ErrSilent):
		return nil, errors.New("the server does not answer any more")
	case err != nil:
		return nil, reasonOf(err)
	}
	if t.buf.Len() <= keepBuffer {
		return bytes.Clone(t.buf.Bytes()), nil
	}
	message := t.buf.Bytes()
	t.buf = bytes.Buffer{}
	return message, nil
}

// reasonOf removes the addresses from a network error.
func reasonOf(err error) error {
	var network net.Error
	var op *net.OpError
	switch {
	case errors.As(err, &network) && network.Timeout():
		return errors.New("the server does not answer any more")
	case errors.As(err, &op):
		return op.Err
	case network != nil:
		// The websocket package keeps only the text of the error.
		if _, rest, ok := strings.Cut(err.Error(), "->"); ok {
			if _, reason, ok := strings.Cut(rest, ": "); ok {
				return errors.New(reason)
			}
		}
	}
	return err
}

func (t *webSocket) Write(message []byte) error {
	if err := t.c.WriteText(message); err != nil {
		return reasonOf(err)
	}
	return nil
}

// Close closes the connection. If the server has closed it first, Close sends the server's own
// code back.
func (t *webSocket) Close() error {
	code := websocket.CloseNormal
	if answer := int(t.code.Load()); answer != 0 {
		code = answer
	}
	return t.c.Close(code, "")
}

// Command is a server that communicates over its stdin and stdout.
type Command struct {
	Path string
	Args []string // without the program's name
	Env  []string // nil: this program's environment
	Dir  string
	// Stderr gets the command's standard error; nil: it is dropped.
	Stderr io.Writer
	// Banner gets the lines of standard output before the first message, such as a greeting of a
	// shell; nil: Stderr gets them.
	Banner io.Writer
}

// stdio is a Transport over a command's streams.
type stdio struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	once sync.Once
	err  error

	begun  bool      // a message has arrived
	banner int       // bytes of the lines before the first message
	greet  io.Writer // gets the lines before the first message; nil: they are dropped
}

// StartTransport starts a command, and returns the transport over its streams. Close ends the command.
func StartTransport(c Command) (Transport, error) {
	cmd := exec.Command(c.Path, c.Args...)
	stderr := c.Stderr
	if _, isFile := stderr.(*os.File); stderr != nil && !isFile {
		stderr = &lockedWriter{to: stderr} // two goroutines write to it: see isBanner
	}
	cmd.Env, cmd.Dir, cmd.Stderr = c.Env, c.Dir, stderr
	// Descendants may keep its standard error open after it has exited.
	cmd.WaitDelay = childGrace
	ownGroup(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("failed to spawn exec-server: %w", directoryError(cmd.Dir, err))
	}
	greet := stderr
	if c.Banner != nil {
		greet = c.Banner
	}
	return &stdio{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 64<<10), greet: greet}, nil
}

// directoryError returns the error of a start. If the working directory is missing or may not
// be entered, the system's error names the program: then this one names the directory.
func directoryError(dir string, err error) error {
	if dir == "" {
		return err
	}
	there, wrong := os.Stat(dir)
	if wrong == nil && !there.IsDir() {
		wrong = &fs.PathError{Op: "chdir", Path: dir, Err: syscall.ENOTDIR}
	}
	if wrong != nil {
		return fmt.Errorf("its working directory: %w", wrong)
	}
	return err
}

// lockedWriter serializes writes.
type lockedWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(b)
}

func (t *stdio) Read() ([]byte, error) {
	for {
		line, err := t.out.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 && !t.isBanner(line) {
			t.begun = true
			return line, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// isBanner reports whether the line is from the program that starts the server, such as a shell
// whose start-up files print a greeting. Such a line comes before the first message and is not
// a JSON object. It is passed on to greet.
func (t *stdio) isBanner(line []byte) bool {
	t.banner += len(line)
	if t.begun || line[0] == '{' || t.banner > maxBanner {
		return false
	}
	if t.greet != nil {
		_, _ = t.greet.Write(append(bytes.Clone(line), '\n'))
	}
	return true
}

func (t *stdio) Write(message []byte) error {
	_, err := t.in.Write(append(message, '\n'))
	return err
}

// Close ends the command: by closing its stdin, then by SIGTERM on Unix, then by SIGKILL.
func (t *stdio) Close() error {
	t.once.Do(func() {
		_ = t.in.Close()
		term := time.AfterFunc(childGrace, func() { endGroup(t.cmd.Process) })
		kill := time.AfterFunc(2*childGrace, func() { killGroup(t.cmd.Process) })
		if t.err = t.cmd.Wait(); errors.Is(t.err, exec.ErrWaitDelay) {
			t.err = nil
		}
		term.Stop()
		kill.Stop()
	})
	return t.err
}
