// Command bench measures exec-servers side by side, in one run, interleaved
// round by round, and prints a table of minimum, median and maximum with the
// ratio of our median to that of the better reference.
//
//	bench -ours ./bin/codex -ref 0.142.0=PATH -ref 0.169.0=PATH
//
// The machine is noisy: only ratios of one run mean something, and nothing is
// asserted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

type refs []*server

func (r *refs) String() string { return "" }

func (r *refs) Set(v string) error {
	name, path, ok := strings.Cut(v, "=")
	if !ok {
		return errors.New("expected NAME=PATH")
	}
	*r = append(*r, &server{name: name, path: path})
	return nil
}

func main() {
	var servers refs
	ours := flag.String("ours", "", "our codex")
	flag.Var(&servers, "ref", "NAME=PATH of a reference's codex; may be repeated")
	runs := flag.Int("runs", 5, "rounds")
	short := flag.Bool("short", false, "few rounds and small sizes, to see that it works")
	only := flag.String("only", "", "measure only what matches this regular expression")
	markdown := flag.Bool("markdown", false, "print the table as markdown")
	flag.Parse()
	if *ours != "" {
		servers = slices.Insert(servers, 0, &server{name: "ours", path: *ours})
	}
	b := &bench{servers: servers, rounds: *runs, z: fullSizes, markdown: *markdown, results: map[string]map[string][]float64{}}
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
	err = b.run(ctx)
	for _, s := range servers {
		s.stop()
	}
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
	servers  refs
	rounds   int
	z        sizes
	only     *regexp.Regexp
	markdown bool
	rows     []row
	results  map[string]map[string][]float64 // metric, then server
}

// row is a line of the table.
type row struct {
	name, unit string
	target     float64
}

func (b *bench) add(r row, server string, value float64) {
	if b.results[r.name] == nil {
		b.results[r.name] = map[string][]float64{}
		b.rows = append(b.rows, r)
	}
	b.results[r.name][server] = append(b.results[r.name][server], value)
}

func (b *bench) wants(name string) bool { return b.only.MatchString(name) }

func (b *bench) run(ctx context.Context) error {
	for _, s := range b.servers {
		if err := s.prepare(b.z); err != nil {
			return err
		}
		defer os.RemoveAll(s.home)
	}
	if err := b.starts(ctx); err != nil {
		return err
	}
	clients := make(map[*server]*client)
	for _, s := range b.servers {
		if err := s.start(); err != nil {
			return err
		}
		b.add(row{"resident memory, idle", "MB", 1. / 3}, s.name, s.rss()/1024)
		c, err := connect(s.url)
		if err != nil {
			return err
		}
		defer c.close()
		clients[s] = c
	}
	for round := range b.rounds {
		if err := b.round(ctx, round, clients); err != nil {
			return err
		}
	}
	return b.memory()
}

// prepare makes the server's files.
func (s *server) prepare(z sizes) error {
	home, err := os.MkdirTemp("", "bench-*")
	if err != nil {
		return err
	}
	s.home, s.dir = home, filepath.Join(home, "files")
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		return err
	}
	for name, n := range map[string]int{"small": 1 << 10, "medium": 1 << 20, "large": z.file} {
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
			b.add(row{name, "ms", 0.25}, s.name, ms(s.listening))
			s.stop()
		}
	}
	return nil
}

// round measures everything once, in an order of servers that changes from
// round to round.
func (b *bench) round(ctx context.Context, round int, clients map[*server]*client) error {
	for _, m := range metrics(b.z) {
		if !b.wants(m.name) {
			continue
		}
		r := row{m.name, m.unit, m.target}
		for i := range b.servers {
			s := b.servers[(i+round)%len(b.servers)]
			for range m.times {
				if err := ctx.Err(); err != nil {
					return err
				}
				v, err := m.run(s, clients[s])
				if err != nil {
					return fmt.Errorf("%s, %s: %w", s.name, m.name, err)
				}
				b.add(r, s.name, v)
			}
		}
		if m.raw != nil {
			v, err := m.raw()
			if err != nil {
				return fmt.Errorf("%s without a server: %w", m.name, err)
			}
			b.add(r, "raw", v)
		}
	}
	return nil
}

// memory measures what the servers hold after the run.
func (b *bench) memory() error {
	time.Sleep(5 * time.Second)
	for _, s := range b.servers {
		b.add(row{"resident memory, after the run", "MB", 0.5}, s.name, s.rss()/1024)
	}
	const conns, wait = 200, 3 * time.Second
	for _, s := range b.servers {
		kib, err := idleConnections(s, conns)
		if err != nil {
			return fmt.Errorf("%s, idle connections: %w", s.name, err)
		}
		b.add(row{"an idle connection (of 200; aim: 60 KiB)", "KiB", math.Inf(1)}, s.name, kib)
		mb, err := stalledReader(s, wait)
		if err != nil {
			return fmt.Errorf("%s, stalled reader: %w", s.name, err)
		}
		b.add(row{"growth with a stalled reader", "MB", math.Inf(1)}, s.name, mb)
		st, err := os.Stat(s.path)
		if err != nil {
			return err
		}
		b.add(row{"size of the binary (aim: 15 MB)", "MB", math.Inf(1)}, s.name, float64(st.Size())/1e6)
	}
	return nil
}
