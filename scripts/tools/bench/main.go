// Command bench measures exec-servers side by side, in one run, interleaved
// round by round, and prints a table of minimum, median and maximum with the
// ratio of our median to that of the better release of Codex CLI.
//
//	bench -ours ./bin/codex -upstream 0.142.0=PATH -upstream before=PATH
//
// bench expects codex-fs and codex-linux-sandbox next to our program. The machine is noisy: only
// ratios within one run are meaningful, and nothing is asserted.
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

// launcherName is the name under which codex acts as its sandbox launcher.
const launcherName = "codex-linux-sandbox"

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
	flag.Var(&servers, "upstream", "NAME=PATH of a server to compare with; may be repeated")
	runs := flag.Int("runs", 5, "rounds")
	short := flag.Bool("short", false, "one round with small sizes, to see that it works")
	only := flag.String("only", "", "measure only the rows that match this regular expression")
	markdown := flag.Bool("markdown", false, "print the table as markdown")
	floods := flag.Bool("floods", false, "measure only what a client loses beside others, and the memory that floods take")
	kind := flag.String("play", "", "be a client that -floods starts (player.go)")
	flag.Parse()
	if *kind != "" {
		if err := play(*kind, flag.Args()); err != nil {
			fatal(err)
		}
		return
	}
	filter, err := regexp.Compile(*only)
	if err != nil {
		fatal(err)
	}
	b := &bench{
		servers: slices.Insert(servers, 0, &server{name: oursColumn, path: *ours}),
		rounds:  *runs, z: fullSizes, only: filter, markdown: *markdown,
		results: map[string]map[string][]float64{}, failures: map[string]map[string]string{},
	}
	if *short {
		b.rounds, b.z = 1, shortSizes
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	done := make(chan error, 1)
	measure := b.run
	if *floods {
		measure = b.floodAll
	}
	go func() { done <- measure(ctx) }()
	select {
	case err = <-done:
	case <-ctx.Done():
		// A measurement that waits for a server ends when the server is killed.
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

// These are the columns of the table that are not a release of Codex CLI.
const (
	oursColumn   = "ours"
	beforeColumn = "before" // another build of ours, which does not count as a release
	rawColumn    = "raw"    // the same work without a server, or by bwrap, or without the relay
)

// bench is the state of one run.
type bench struct {
	servers  serverList
	rounds   int
	z        sizes
	only     *regexp.Regexp
	markdown bool
	rows     []row
	results  map[string]map[string][]float64 // row, then column
	failures map[string]map[string]string    // likewise: the reason for a missing result
	bases    []string                        // directories to remove
}

// row is a line of the table.
type row struct {
	name, unit string
	aim        aim
}

// declare adds a line to the table.
func (b *bench) declare(r row) {
	if b.results[r.name] == nil {
		b.results[r.name], b.failures[r.name] = map[string][]float64{}, map[string]string{}
		b.rows = append(b.rows, r)
	}
}

func (b *bench) add(r row, column string, value float64) {
	b.declare(r)
	b.results[r.name][column] = append(b.results[r.name][column], value)
}

// fail records that a column of a line cannot be measured.
func (b *bench) fail(r row, column string, err error) {
	b.declare(r)
	b.failures[r.name][column] = err.Error()
}

// clean ends the servers and removes their directories.
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
			b.add(row{name, "MB", aim{ratio: 1, most: 14}}, s.name, s.rss()/1024)
		}
		c, err := connect(s.url, "")
		if err != nil {
			return err
		}
		clients[s] = c
	}
	if err := b.connects(ctx); err != nil {
		return err
	}
	metrics := metrics(b.z)
	if confined, err := b.confined(); err != nil {
		return err
	} else {
		metrics = append(metrics, confined...)
	}
	relayed, err := b.relay(ctx)
	if err != nil {
		return err
	}
	defer relayed.close()
	for round := range b.rounds {
		if err := b.round(ctx, round, metrics, clients); err != nil {
			return err
		}
		if err := relayed.round(ctx, round); err != nil {
			return err
		}
	}
	return nil
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
	if s.name != oursColumn {
		// With a bubblewrap as old as 0.8, Codex CLI searches the PATH for its launcher by
		// this name.
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
	r := row{"listening after", "ms", aim{ratio: 1, most: 10}}
	if !b.wants(r.name) {
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
			b.add(r, s.name, ms(s.listening))
			s.stop()
		}
	}
	return nil
}

// connects measures a connection and its handshake, with and without a token. Codex CLI 0.142.0
// does not support tokens.
func (b *bench) connects(ctx context.Context) error {
	const token = "bench-0123456789abcdef0123456789abcdef"
	with := row{"connect + initialize, with a token", "ms", aim{ratio: 1}}
	without := row{"connect + initialize, without a token", "ms", aim{}}
	for i := range 20 * b.rounds {
		for _, s := range b.servers {
			if err := ctx.Err(); err != nil {
				return err
			}
			if b.wants(without.name) {
				v, err := connecting(s.url, "")
				if err != nil {
					return fmt.Errorf("%s, %s: %w", s.name, without.name, err)
				}
				b.add(without, s.name, v)
			}
			if !b.wants(with.name) {
				continue
			}
			if i == 0 {
				if err := s.startGuarded(token); err != nil {
					b.fail(with, s.name, err)
				}
			}
			if s.guarded == nil {
				continue
			}
			v, err := connecting(s.guarded.url, token)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", s.name, with.name, err)
			}
			b.add(with, s.name, v)
		}
	}
	for _, s := range b.servers {
		s.guarded.stop()
	}
	return nil
}

// connecting measures one connection.
func connecting(url, token string) (float64, error) {
	return timed(func() error {
		c, err := connect(url, token)
		c.close()
		return err
	})
}

// round measures everything once. The order of the servers changes from round to round.
func (b *bench) round(ctx context.Context, round int, metrics []metric, clients map[*server]*client) error {
	for _, m := range metrics {
		if !b.wants(m.name) {
			continue
		}
		for i := range m.times {
			for j := range b.servers {
				s := b.servers[(i+j+round)%len(b.servers)]
				if err := ctx.Err(); err != nil {
					return err
				}
				if b.results[m.name] != nil && b.failures[m.name][s.name] != "" {
					continue
				}
				v, err := m.run(s, clients[s])
				if err == nil {
					b.add(m.row, s.name, v)
					continue
				}
				if s.name == oursColumn || ctx.Err() != nil {
					return fmt.Errorf("%s, %s: %w", s.name, m.name, err)
				}
				// Codex CLI sometimes loses an event.
				b.fail(m.row, s.name, err)
				clients[s].close()
				if clients[s], err = connect(s.url, ""); err != nil {
					return fmt.Errorf("%s, after %s: %w", s.name, m.name, err)
				}
			}
			if m.raw != nil {
				v, err := m.raw(ctx)
				if err != nil {
					return fmt.Errorf("%s without a server: %w", m.name, err)
				}
				b.add(m.row, rawColumn, v)
			}
		}
	}
	return nil
}
