// Command bench measures exec-servers side by side, in one run, interleaved
// round by round, and prints a table of minimum, median and maximum with the
// ratio of our median to that of the faster release of Codex CLI.
//
//	bench -ours ./bin/codex -upstream 0.142.0=PATH -upstream 0.169.0=PATH
//
// codex-fs and codex-linux-sandbox are expected beside ours. The machine is
// noisy: only ratios of one run mean something, and nothing is asserted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

type serverList []*server

func (l *serverList) String() string { return "" }

func (l *serverList) Set(v string) error {
	name, path, ok := strings.Cut(v, "=")
	if !ok {
		return errors.New("expected NAME=PATH")
	}
	*l = append(*l, &server{name: name, path: path})
	return nil
}

func main() {
	var servers serverList
	ours := flag.String("ours", "", "our codex")
	flag.Var(&servers, "upstream", "NAME=PATH of a release of Codex CLI; may be repeated")
	runs := flag.Int("runs", 5, "rounds")
	short := flag.Bool("short", false, "few rounds and small sizes, to see that it works")
	only := flag.String("only", "", "measure only what matches this regular expression")
	markdown := flag.Bool("markdown", false, "print the table as markdown")
	flag.Parse()
	if *ours != "" {
		servers = slices.Insert(servers, 0, &server{name: "ours", path: *ours})
	}
	b := &bench{
		servers: servers, rounds: *runs, z: fullSizes, markdown: *markdown,
		results: map[string]map[string][]float64{}, failures: map[string]map[string]string{}, direct: map[string]map[string]bool{},
	}
	if *short {
		b.rounds, b.z = 1, shortSizes
	}
	filter, err := regexp.Compile(*only)
	if err != nil {
		fatal(err)
	}
	b.only = filter
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- b.run(ctx) }()
	select {
	case err = <-done:
	case <-ctx.Done():
		// Whatever waits for a server now waits in vain.
		abandon()
		select {
		case <-done:
		case <-time.After(2 * time.Second):
		}
		b.clean()
		os.Exit(130)
	}
	b.clean()
	if err != nil {
		fatal(err)
	}
	b.print()
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

// bench is one run.
type bench struct {
	servers  serverList
	rounds   int
	z        sizes
	only     *regexp.Regexp
	markdown bool
	rows     []row
	results  map[string]map[string][]float64 // row, then column
	failures map[string]map[string]string    // likewise: why there is no result
	direct   map[string]map[string]bool      // likewise: it was not confined, so it does not count
	bases    []string                        // directories to remove
	proxied  *proxied
}

// row is a line of the table.
type row struct {
	name, unit string
	aim        aim
}

// declare makes a line of the table.
func (b *bench) declare(r row) {
	if b.results[r.name] == nil {
		b.results[r.name] = map[string][]float64{}
		b.rows = append(b.rows, r)
	}
}

func (b *bench) add(r row, column string, value float64) {
	b.declare(r)
	b.results[r.name][column] = append(b.results[r.name][column], value)
}

// fail notes that a column of a line cannot be measured.
func (b *bench) fail(r row, column string, err error) {
	b.declare(r)
	if b.failures[r.name] == nil {
		b.failures[r.name] = map[string]string{}
	}
	b.failures[r.name][column] = err.Error()
}

// clean ends the servers and removes what they were given.
func (b *bench) clean() {
	for _, s := range b.servers {
		s.stop()
	}
	for _, dir := range b.bases {
		_ = os.RemoveAll(dir)
	}
}

func (b *bench) wants(name string) bool { return b.only.MatchString(name) }

func (b *bench) run(ctx context.Context) error {
	b.proxied = newProxied(b.z)
	defer b.proxied.close()
	for _, s := range b.servers {
		if err := b.prepare(s); err != nil {
			return err
		}
	}
	if err := b.starts(ctx); err != nil {
		return err
	}
	clients := make(map[*server]*client)
	defer func() {
		for _, c := range clients {
			c.close()
		}
	}()
	for _, s := range b.servers {
		if err := s.start(); err != nil {
			return err
		}
		const name = "resident memory, idle"
		if b.wants(name) {
			b.add(row{name, "MB", aim{ratio: 1. / 3}}, s.name, s.rss()/1024)
		}
		c, err := connect(s.url)
		if err != nil {
			return err
		}
		clients[s] = c
	}
	confined, err := b.confine()
	if err != nil {
		return err
	}
	defer confined.close()
	relayed, err := b.relay(ctx)
	if err != nil {
		return err
	}
	defer relayed.close()
	for round := range b.rounds {
		if err := b.round(ctx, round, clients); err != nil {
			return err
		}
		if err := confined.round(ctx, round); err != nil {
			return err
		}
		if err := relayed.round(ctx, round); err != nil {
			return err
		}
	}
	if err := relayed.idle(ctx); err != nil {
		return err
	}
	if err := b.memory(ctx); err != nil {
		return err
	}
	return b.sizes()
}

// prepare makes the server's directories and files.
func (b *bench) prepare(s *server) error {
	base, err := os.MkdirTemp("", "bench-*")
	if err != nil {
		return err
	}
	b.bases = append(b.bases, base)
	s.home, s.dir = filepath.Join(base, "home"), filepath.Join(base, "files")
	for _, dir := range []string{s.home, s.dir} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if s.name != "ours" {
		// With a bubblewrap as old as 0.8 Codex CLI looks for itself,
		// by this name, on the PATH.
		s.bin = filepath.Join(base, "bin")
		if err := os.Mkdir(s.bin, 0o755); err != nil {
			return err
		}
		path, err := filepath.Abs(s.path)
		if err != nil {
			return err
		}
		if err := os.Symlink(path, filepath.Join(s.bin, launcherName)); err != nil {
			return err
		}
	}
	for name, n := range map[string]int{"small": 1 << 10, "medium": 1 << 20, "large": b.z.file} {
		if err := os.WriteFile(filepath.Join(s.dir, name), make([]byte, n), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// starts measures how long the servers take to listen.
func (b *bench) starts(ctx context.Context) error {
	const name = "listening after"
	if !b.wants(name) {
		return nil
	}
	for range 2 * b.rounds {
		for _, s := range b.servers {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := s.start(); err != nil {
				return err
			}
			b.add(row{name, "ms", aim{ratio: 0.25}}, s.name, ms(s.listening))
			s.stop()
		}
	}
	return nil
}

// round measures everything once, in an order of servers that changes from
// round to round.
func (b *bench) round(ctx context.Context, round int, clients map[*server]*client) error {
	for _, m := range append(metrics(b.z), b.proxied.metrics()...) {
		if !b.wants(m.name) {
			continue
		}
		r := row{m.name, m.unit, m.aim}
		for i := range b.servers {
			s := b.servers[(i+round)%len(b.servers)]
			for range m.times {
				if err := ctx.Err(); err != nil {
					return err
				}
				v, err := m.run(s, clients[s])
				if err == nil {
					b.add(r, s.name, v)
					continue
				}
				if s.name == "ours" || ctx.Err() != nil {
					return fmt.Errorf("%s, %s: %w", s.name, m.name, err)
				}
				// Codex CLI sometimes loses an event.
				b.fail(r, s.name, err)
				clients[s].close()
				if clients[s], err = connect(s.url); err != nil {
					return fmt.Errorf("%s, after %s: %w", s.name, m.name, err)
				}
				break
			}
		}
		if m.raw != nil {
			v, err := m.raw(ctx)
			if err != nil {
				return fmt.Errorf("%s without a server: %w", m.name, err)
			}
			b.add(r, "raw", v)
		}
	}
	return nil
}

// settle is how long a server gets to settle before its memory is looked at.
const settle = 300 * time.Millisecond

// memory measures what the servers hold after the run, and what fresh ones
// need for connections.
func (b *bench) memory(ctx context.Context) error {
	const after, idle, stalled = "resident memory, after the run", "an idle connection (of 200)", "growth with a stalled reader"
	if b.wants(after) {
		if err := sleep(ctx, 5*time.Second); err != nil {
			return err
		}
		for _, s := range b.servers {
			b.add(row{after, "MB", aim{ratio: 0.5}}, s.name, s.rss()/1024)
		}
	}
	for _, s := range b.servers {
		if b.wants(idle) {
			err := fresh(ctx, s, func(s *server) error {
				kib, err := idleConnections(ctx, s, 200)
				if err == nil {
					b.add(row{idle, "KiB", aim{most: 60}}, s.name, kib)
				}
				return err
			})
			if err != nil {
				return fmt.Errorf("%s, idle connections: %w", s.name, err)
			}
		}
		if b.wants(stalled) {
			err := fresh(ctx, s, func(s *server) error {
				mb, err := stalledReader(ctx, s, 3*time.Second)
				if err == nil {
					b.add(row{stalled, "MB", aim{}}, s.name, mb)
				}
				return err
			})
			if err != nil {
				return fmt.Errorf("%s, stalled reader: %w", s.name, err)
			}
		}
	}
	return nil
}

// fresh starts a server like s for f to measure. It has run a process, so that
// what comes with the first one does not count.
func fresh(ctx context.Context, s *server, f func(*server) error) error {
	again := &server{name: s.name, path: s.path, args: s.args, home: s.home, dir: s.dir, bin: s.bin}
	if err := again.start(); err != nil {
		return err
	}
	defer again.stop()
	c, err := connect(again.url)
	if err != nil {
		return err
	}
	err = runTrue(c)
	c.close()
	if err != nil {
		return err
	}
	if err := sleep(ctx, settle); err != nil {
		return err
	}
	return f(again)
}

// sizes measures the binaries.
func (b *bench) sizes() error {
	for _, s := range b.servers {
		for _, program := range []struct {
			name string
			most float64 // MB, as in the stage "build" of .ci/run
		}{{"codex", 18}, {helperName, 4}, {launcherName, 4}} {
			path := s.path
			if program.name != "codex" {
				path = filepath.Join(filepath.Dir(s.path), program.name)
			}
			if !b.wants("size of "+program.name) || path != s.path && s.name != "ours" {
				continue
			}
			st, err := os.Stat(path)
			if err != nil {
				return err
			}
			b.add(row{"size of " + program.name, "MB", aim{most: program.most}}, s.name, float64(st.Size())/1e6)
		}
	}
	return nil
}
