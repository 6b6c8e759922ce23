package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// These are the sizes of the floods.
const (
	floodFile   = 64 << 20
	floodNames  = 100_000
	floodPings  = 600_000
	floodArgs   = 2 << 20
	unfinished  = 60 << 20
	floodRooms  = 10               // connections of a flood of small messages
	settleTime  = 10 * time.Second // from the end of the clients to the second look at the memory
	floodTime   = 20 * time.Second // a client whose messages are not taken for so long has flooded enough
	pingPayload = 125
)

// floodSecret signs the token of each client.
const floodSecret = "floods-0123456789abcdef0123456789abcdef"

// floodAims are the aims for the server's memory: the limit for all answers and messages together,
// plus what a server needs.
var (
	peakAim  = aim{most: 256 + 64}
	afterAim = aim{most: 64}
)

// flood describes what clients do that read no answers.
type flood struct {
	name string
	play func(s *server, crowd *crowd) error
}

// crowd has the clients of a flood. Each has its own token.
type crowd struct {
	url     string
	clients []*client
	playing sync.WaitGroup
}

// join connects another client.
func (c *crowd) join() (*client, error) {
	one, err := connect(c.url, floodToken(len(c.clients)))
	if err == nil {
		c.clients = append(c.clients, one)
	}
	return one, err
}

// each makes n clients do something at the same time. The server may end the connection of any of
// them; that is not an error.
func (c *crowd) each(n int, do func(one *client)) error {
	for range n {
		one, err := c.join()
		if err != nil {
			return err
		}
		_ = one.ws.SetWriteDeadline(time.Now().Add(floodTime))
		c.playing.Go(func() { do(one) })
	}
	return nil
}

// leave closes all connections.
func (c *crowd) leave() {
	for _, one := range c.clients {
		one.close()
	}
	c.playing.Wait()
}

// floodToken returns the token of a client.
func floodToken(client int) string {
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." +
		encode(fmt.Appendf(nil, `{"sub":"client %d","exp":%d}`, client, time.Now().Add(time.Hour).Unix()))
	mac := hmac.New(sha256.New, []byte(floodSecret))
	mac.Write([]byte(text))
	return text + "." + encode(mac.Sum(nil))
}

func floods() []flood {
	unread := func(n int, method, name string) func(*server, *crowd) error {
		return func(s *server, c *crowd) error {
			return c.each(n, func(one *client) { _, _ = one.send(method, `{"path":"file://`+filepath.Join(s.dir, name)+`"}`) })
		}
	}
	return []flood{
		{"32 unread readFile of 64 MiB", unread(32, "fs/readFile", "flood")},
		{"40 unread listings of 100,000 names", unread(40, "fs/readDirectory", "names")},
		{"16 unfinished messages of 60 MiB", func(_ *server, c *crowd) error {
			text := bytes.Repeat([]byte("a"), unfinished)
			return c.each(16, func(one *client) {
				if w, err := one.ws.NextWriter(websocket.TextMessage); err == nil {
					_, _ = w.Write(text) // the end of the message is in the writer's buffer, and is not sent
				}
			})
		}},
		{"600,000 pings, pongs unread", func(_ *server, c *crowd) error {
			// The mask is zero, so that the payload needs no work.
			ping := append([]byte{0x89, 0x80 | pingPayload, 0, 0, 0, 0}, make([]byte, pingPayload)...)
			many := bytes.Repeat(ping, 600)
			return c.each(floodRooms, func(one *client) {
				conn := one.ws.UnderlyingConn()
				for range floodPings / floodRooms / 600 {
					if _, err := conn.Write(many); err != nil {
						return
					}
				}
			})
		}},
		{"600,000 getMetadata, answers unread", func(s *server, c *crowd) error {
			return c.each(floodRooms, func(one *client) { metadataFlood(s.dir, one, floodPings/floodRooms) })
		}},
		{"200 starts with 2 MiB of arguments", func(_ *server, c *crowd) error {
			one, err := c.join()
			if err != nil {
				return err
			}
			// The kernel accepts arguments of up to 128 KiB, and 2 MiB of all arguments and the
			// environment together.
			argv := `["/bin/true"` + strings.Repeat(`,"`+strings.Repeat("a", floodArgs/16-1<<10)+`"`, 16) + `]`
			for range 200 {
				id := newID()
				if err := one.start(id, argv, plain); err != nil {
					return err
				}
				if _, err := one.events(id); err != nil {
					return err
				}
			}
			return nil
		}},
	}
}

// metadataFlood sends requests without waiting for answers, until n are sent or the connection
// ends. The mask of its messages is zero, and one write has many messages, so that the client's own
// time is negligible.
func metadataFlood(dir string, one *client, n int) {
	conn := one.ws.UnderlyingConn()
	var buf []byte
	for sent := 1; sent <= n; sent++ {
		text := `{"id":` + strconv.Itoa(1000+sent) + `,"method":"fs/getMetadata","params":` + smallParams(dir) + `}`
		if buf = append(buf, 0x81); len(text) < 126 {
			buf = append(buf, 0x80|byte(len(text)))
		} else {
			buf = binary.BigEndian.AppendUint16(append(buf, 0x80|126), uint16(len(text)))
		}
		buf = append(append(buf, 0, 0, 0, 0), text...)
		if len(buf) < 32<<10 && sent < n {
			continue
		}
		if _, err := conn.Write(buf); err != nil {
			return
		}
		buf = buf[:0]
	}
}

// floodAll measures how much slower one client becomes because of others, and how much memory the
// server uses. Each flood has its own server.
func (b *bench) floodAll(ctx context.Context) error {
	for _, s := range b.servers {
		if err := b.prepare(s); err != nil {
			return err
		}
		if err := b.quiet(ctx, s); err != nil {
			return fmt.Errorf("%s, the quiet client: %w", s.name, err)
		}
		for _, f := range floods() {
			if !b.wants(f.name) {
				continue
			}
			if err := b.flood(ctx, s, f); err != nil {
				if s.name == oursColumn || ctx.Err() != nil {
					return fmt.Errorf("%s, %s: %w", s.name, f.name, err)
				}
				b.fail(row{f.name + ": peak", "MiB", peakAim}, s.name, err)
			}
		}
	}
	return nil
}

// startSigned starts a server like s that accepts tokens that are signed with floodSecret.
func (s *server) startSigned() (*server, error) {
	file := filepath.Join(s.home, "secret")
	if err := os.WriteFile(file, []byte(floodSecret), 0o600); err != nil {
		return nil, err
	}
	guarded := &server{name: s.name, path: s.path, home: s.home, bin: s.bin, dir: s.dir,
		args: []string{"--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", file}}
	return guarded, guarded.start()
}

// quiet measures the requests of a client that waits for each answer, alone and together with ten
// clients that do not. Each client is a process of its own: otherwise the client would wait for
// the other ones in its own process. The scheduler prefers the server and the quiet client: see prefer.
func (b *bench) quiet(ctx context.Context, s *server) error {
	const name = "getMetadata of a quiet client"
	if !b.wants(name) {
		return nil
	}
	guarded, err := s.startSigned()
	if err != nil {
		return err
	}
	defer guarded.stop()
	refused := prefer(guarded.cmd)
	if refused != nil {
		fmt.Fprintln(os.Stderr, "bench: the quiet client also waits for the processors that the flood uses, because the server cannot be preferred:", refused)
	}
	measure := func(r row) (float64, error) {
		all, err := measureQuiet(guarded, refused == nil)
		for _, v := range all {
			b.add(r, s.name, v)
		}
		return median(all), errors.Join(err, ctx.Err())
	}
	alone, err := measure(row{name + ", alone", "ms", aim{}})
	if err != nil {
		return err
	}
	for _, crowd := range []struct{ play, who string }{
		{playEndless, "ten that do not wait"},
		{playWindow, fmt.Sprintf("ten with %d requests in flight", floodWindow)},
	} {
		if err := b.beside(guarded, crowd.play, func() error {
			beside, err := measure(row{name + ", beside " + crowd.who, "ms", aim{}})
			if err == nil {
				b.add(row{name + ", beside " + crowd.who + " / alone", "ratio", aim{most: 4}}, s.name, beside/alone)
			}
			return err
		}, row{"answers of " + crowd.who, "MB/s", aim{}}); err != nil {
			return fmt.Errorf("beside %s: %w", crowd.who, err)
		}
	}
	return nil
}

// beside calls measure while ten clients flood the server, and adds the speed of their answers as a
// row.
func (b *bench) beside(s *server, play string, measure func() error, speed row) error {
	var crowd []*player
	defer func() {
		for _, p := range crowd {
			finish(p.cmd)
		}
	}()
	for i := range floodRooms {
		p, err := startPlayer(play, s, i)
		if err != nil {
			return err
		}
		crowd = append(crowd, p)
	}
	answered := func() (sum int64, err error) {
		for _, p := range crowd {
			n, err := p.answered()
			if err != nil {
				return 0, err
			}
			sum += n
		}
		return sum, nil
	}
	time.Sleep(time.Second)
	before, err := answered()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := measure(); err != nil {
		return err
	}
	after, err := answered()
	b.add(speed, s.name, float64(after-before)/1e6/time.Since(began).Seconds())
	return err
}

// flood runs one flood.
func (b *bench) flood(ctx context.Context, s *server, f flood) error {
	if err := floodFiles(s.dir); err != nil {
		return err
	}
	guarded, err := s.startSigned()
	if err != nil {
		return err
	}
	defer guarded.stop()
	status := fmt.Sprintf("/proc/%d/status", guarded.cmd.Process.Pid)
	crowd := &crowd{url: guarded.url}
	err = f.play(guarded, crowd)
	if err == nil {
		done := make(chan struct{})
		go func() { crowd.playing.Wait(); close(done) }()
		select {
		case <-done:
		case <-ctx.Done():
		case <-time.After(floodTime):
		}
		time.Sleep(5 * time.Second) // the server works at what was sent
	}
	crowd.leave()
	b.add(row{f.name + ": peak", "MiB", peakAim}, s.name, field(status, "VmHWM:")/1024)
	time.Sleep(settleTime)
	after := field(status, "VmRSS:")
	if err := errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	if after == 0 {
		return errors.New("the server has ended")
	}
	b.add(row{f.name + ": 10 s after", "MiB", afterAim}, s.name, after/1024)
	return nil
}

// floodFiles creates the files that floods request, once.
func floodFiles(dir string) error {
	names := filepath.Join(dir, "names")
	if err := os.Mkdir(names, 0o755); errors.Is(err, os.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	for i := range floodNames {
		if err := os.WriteFile(filepath.Join(names, fmt.Sprintf("name-%06d", i)), nil, 0o644); err != nil {
			return err
		}
	}
	file := filepath.Join(dir, "flood")
	return errors.Join(os.WriteFile(file, nil, 0o644), os.Truncate(file, floodFile))
}
