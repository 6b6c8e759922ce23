package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/creack/pty"
)

// metric is a row that is measured on every server in every round.
type metric struct {
	row
	times int // how often it is measured in a round
	run   func(s *server, c *client) (float64, error)
	raw   func(context.Context) (float64, error) // the same work without a server; nil: not applicable
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// timed measures a call.
func timed(f func() error) (float64, error) {
	began := time.Now()
	err := f()
	return ms(time.Since(began)), err
}

// sizes are the numbers of bytes that the large rows transfer.
type sizes struct{ pipe, pty, file, echo, stream int }

var (
	fullSizes  = sizes{256 << 20, 32 << 20, 32 << 20, 64 << 20, 128 << 20}
	shortSizes = sizes{16 << 20, 4 << 20, 4 << 20, 4 << 20, 8 << 20}
)

var processes int

func newID() string {
	processes++
	return "p" + strconv.Itoa(processes)
}

const plain = `"tty":false`

// runTrue runs /bin/true to its end.
func runTrue(c *client) error { return runTrueIn(c, "/", "/usr/bin:/bin", plain) }

func runTrueIn(c *client, dir, path, options string) error {
	id := newID()
	if _, err := c.call("process/start", startParamsIn(dir, path, id, `["/bin/true"]`, options)); err != nil {
		return err
	}
	_, err := c.events(id)
	return err
}

// output runs a command that writes n bytes and reads them all.
func output(c *client, argv, options string, n int) (float64, error) {
	id := newID()
	return timed(func() error {
		if err := c.start(id, argv, options); err != nil {
			return err
		}
		got, err := c.events(id)
		if err == nil && got != n {
			err = fmt.Errorf("%d bytes of %d came", got, n)
		}
		return err
	})
}

func head(n int) string { return fmt.Sprintf(`["head","-c","%d","/dev/zero"]`, n) }

func metrics(z sizes) []metric {
	file := func(s *server, name string) string { return "file://" + filepath.Join(s.dir, name) }
	read := func(name string, n int) func(*server, *client) (float64, error) {
		return func(s *server, c *client) (float64, error) {
			return timed(func() error {
				m, err := c.call("fs/readFile", `{"path":"`+file(s, name)+`"}`)
				if err == nil && len(m) < n/3*4 {
					err = fmt.Errorf("a short answer: %d bytes", len(m))
				}
				return err
			})
		}
	}
	write := func(name string, n int) func(*server, *client) (float64, error) {
		text := base64.StdEncoding.EncodeToString(make([]byte, n))
		return func(s *server, c *client) (float64, error) {
			return timed(func() error {
				_, err := c.call("fs/writeFile", `{"path":"`+file(s, name)+`","dataBase64":"`+text+`"}`)
				return err
			})
		}
	}
	inMiB := func(format string, n int) row { return row{fmt.Sprintf(format, n>>20), "ms", ahead} }
	return []metric{
		{row{"start to closed, paused", "ms", ahead}, 20, func(_ *server, c *client) (float64, error) {
			time.Sleep(calm)
			return timed(func() error { return runTrue(c) })
		}, rawSpawn},
		{row{"start to closed, back to back", "ms", ahead}, 20, func(_ *server, c *client) (float64, error) {
			return timed(func() error { return runTrue(c) })
		}, rawSpawn},
		{row{"32 starts at once", "ms", ahead}, 3, func(_ *server, c *client) (float64, error) {
			return timed(func() error { return burst(c, 32) })
		}, nil},
		{inMiB("output of a pipe, %d MiB", z.pipe), 1,
			func(_ *server, c *client) (float64, error) { return output(c, head(z.pipe), plain, z.pipe) },
			func(ctx context.Context) (float64, error) { return rawOutput(ctx, z.pipe, false) }},
		{inMiB("output of a terminal, %d MiB", z.pty), 1,
			func(_ *server, c *client) (float64, error) { return output(c, head(z.pty), `"tty":true`, z.pty) },
			func(ctx context.Context) (float64, error) { return rawOutput(ctx, z.pty, true) }},
		{inMiB("through cat and back, %d MiB", z.echo), 1, func(_ *server, c *client) (float64, error) {
			return timed(func() error { return echo(c, z.echo) })
		}, nil},
		{row{"getMetadata", "ms", ahead}, 50, func(s *server, c *client) (float64, error) {
			return timed(func() error {
				_, err := c.call("fs/getMetadata", `{"path":"`+file(s, "small")+`"}`)
				return err
			})
		}, nil},
		{row{"readFile 1 KiB", "ms", ahead}, 50, read("small", 1<<10), nil},
		{row{"readFile 1 MiB", "ms", ahead}, 10, read("medium", 1<<20), nil},
		{inMiB("readFile %d MiB", z.file), 2, read("large", z.file), func(context.Context) (float64, error) { return rawFile(z.file, false) }},
		{row{"writeFile 1 MiB", "ms", ahead}, 10, write("w1", 1<<20), nil},
		{inMiB("writeFile %d MiB", z.file), 2, write("w32", z.file), func(context.Context) (float64, error) { return rawFile(z.file, true) }},
	}
}

// ahead is the aim of most rows: at least as fast as the better release of Codex CLI.
var ahead = aim{ratio: 1}

// burst starts n processes at the same time and waits until all have closed.
func burst(c *client, n int) error {
	for range n {
		if _, err := c.send("process/start", startParams(newID(), `["/bin/true"]`, plain)); err != nil {
			return err
		}
	}
	for closed := 0; closed < n; {
		m, err := c.read()
		if err != nil {
			return err
		}
		if bytes.HasPrefix(m, []byte(`{"method":"process/closed"`)) {
			closed++
		}
	}
	return nil
}

// window is how many writes echo sends before it waits for an answer.
const window = 16

// echo writes n bytes to cat while it reads the echoed data.
func echo(c *client, n int) error {
	id := newID()
	if err := c.start(id, `["cat"]`, `"tty":false,"pipeStdin":true`); err != nil {
		return err
	}
	writes := n / chunkBytes
	slots, stop, sent := make(chan struct{}, window), make(chan struct{}), make(chan error, 1)
	go func() { sent <- writeChunks(c, id, writes, slots, stop) }()
	err := readEcho(c, n, writes, slots)
	if err != nil {
		c.close() // a write may be in progress
	}
	close(stop)
	if err = errors.Join(err, <-sent); err != nil {
		return err
	}
	_, err = c.call("process/terminate", `{"processId":"`+id+`"}`)
	return err
}

// chunkBytes is the size of one write of echo.
const chunkBytes = 64 << 10

// writeChunks sends writes, each when there is a slot, until stop is closed.
func writeChunks(c *client, id string, writes int, slots chan<- struct{}, stop <-chan struct{}) error {
	chunk := base64.StdEncoding.EncodeToString(make([]byte, chunkBytes))
	for i := range writes {
		select {
		case slots <- struct{}{}:
		case <-stop:
			return nil
		}
		_, err := c.send("process/write", `{"processId":"`+id+`","chunk":"`+chunk+`","writeId":"`+strconv.Itoa(i)+`"}`)
		if err != nil {
			return err
		}
	}
	return nil
}

// readEcho reads n bytes of output and the answers to the writes, each of which frees a slot.
func readEcho(c *client, n, writes int, slots <-chan struct{}) error {
	for total, answers := 0, 0; total < n || answers < writes; {
		m, err := c.read()
		if err != nil {
			return err
		}
		switch {
		case bytes.HasPrefix(m, []byte(`{"method":"process/output"`)):
			k, err := chunkLen(m)
			if err != nil {
				return err
			}
			total += k
		case bytes.Contains(m, []byte(`"accepted"`)):
			answers++
			<-slots
		case bytes.Contains(m[:min(len(m), 64)], []byte(`"error"`)):
			return fmt.Errorf("the server says %s", m)
		}
	}
	return nil
}

func rawSpawn(ctx context.Context) (float64, error) {
	return timed(func() error { return exec.CommandContext(ctx, "/bin/true").Run() })
}

// rawOutput reads a command's output and drops it.
func rawOutput(ctx context.Context, n int, tty bool) (float64, error) {
	cmd := exec.CommandContext(ctx, "head", "-c", strconv.Itoa(n), "/dev/zero")
	return timed(func() error {
		if tty {
			f, err := pty.Start(cmd)
			if err != nil {
				return err
			}
			defer f.Close()
			_, _ = io.Copy(io.Discard, f) // it ends with EIO
			return cmd.Wait()
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		buf := make([]byte, 64<<10)
		for {
			if _, err := out.Read(buf); err != nil {
				return cmd.Wait()
			}
		}
	})
}

// rawFile writes or reads a file.
func rawFile(n int, write bool) (float64, error) {
	dir, err := os.MkdirTemp("", "bench-*")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "raw")
	data := make([]byte, n)
	if write {
		return timed(func() error { return os.WriteFile(name, data, 0o600) })
	}
	if err := os.WriteFile(name, data, 0o600); err != nil {
		return 0, err
	}
	return timed(func() error {
		_, err := os.ReadFile(name)
		return err
	})
}
