package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"codex.internal/pkg/execclient"
)

var (
	callRow      = row{"relay: getMetadata, median", "ms", aim{}}
	slowCallRow  = row{"relay: getMetadata, 99th percentile", "ms", aim{}}
	addedRow     = row{"relay: added to a getMetadata", "ms", aim{most: 0.5}}
	handshakeRow = row{fmt.Sprintf("relay: a handshake, %d at a time", handshakers), "ms", aim{}}
	// environmentRow is about the service alone.
	environmentRow = row{"relay: an idle environment", "KiB", aim{most: 40}}
)

// handshakers is how many handshakes are made at a time.
const handshakers = 4

// relayMetric is work that takes its time, on the one way and on the other.
type relayMetric struct {
	row row
	run func(ctx context.Context, w *way) error
}

func relayMetrics(z sizes, dir string) []relayMetric {
	total := z.part * z.streams
	quick := aim{ofRaw: 1 / 0.7}
	return []relayMetric{
		{row{fmt.Sprintf("relay: output of a pipe, %d MiB", z.stream>>20), "ms", quick}, func(ctx context.Context, w *way) error {
			return produce(ctx, w.one, z.stream)
		}},
		{row{fmt.Sprintf("relay: output of %d pipes, %d MiB", z.streams, total>>20), "ms", quick}, func(ctx context.Context, w *way) error {
			group, ctx := errgroup.WithContext(ctx)
			for _, c := range w.many {
				group.Go(func() error { return produce(ctx, c, z.part) })
			}
			return group.Wait()
		}},
		{row{fmt.Sprintf("relay: readFile %d MiB", z.file>>20), "ms", quick}, func(ctx context.Context, w *way) error {
			data, err := w.one.FS().ReadFile(ctx, filepath.Join(dir, "large"))
			if err == nil && len(data) != z.file {
				err = fmt.Errorf("%d bytes of %d came", len(data), z.file)
			}
			return err
		}},
		{row{fmt.Sprintf("relay: writeFile %d MiB", z.file>>20), "ms", quick}, func(ctx context.Context, w *way) error {
			return w.one.FS().WriteFile(ctx, filepath.Join(dir, "written"), make([]byte, z.file))
		}},
	}
}

// relayRows are the lines of the table.
func relayRows(z sizes) []row {
	rows := []row{callRow, slowCallRow, addedRow, handshakeRow, environmentRow}
	for _, m := range relayMetrics(z, "") {
		rows = append(rows, m.row)
	}
	return rows
}

// produce runs a command that writes n bytes and counts them.
func produce(ctx context.Context, c *execclient.Client, n int) error {
	cmd := c.CommandContext(ctx, "head", "-c", strconv.Itoa(n), "/dev/zero")
	var got counter
	cmd.Stdout = &got
	if err := cmd.Run(); err != nil {
		return err
	}
	if int(got) != n {
		return fmt.Errorf("%d bytes of %d came", int(got), n)
	}
	return nil
}

// counter counts what is written to it.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// round measures everything once, the ways in turn.
func (q *relayed) round(ctx context.Context, round int) error {
	if q.service == nil {
		return nil
	}
	ways := slices.Clone(q.ways)
	if round%2 == 1 {
		slices.Reverse(ways)
	}
	if err := q.calls(ctx, ways); err != nil {
		return err
	}
	for _, m := range relayMetrics(q.b.z, q.direct.dir) {
		if !q.b.wants(m.row.name) {
			continue
		}
		for _, w := range ways {
			took, err := timed(func() error { return m.run(ctx, w) })
			if err != nil {
				return fmt.Errorf("%s, %s: %w", m.row.name, w.column, err)
			}
			q.b.add(m.row, w.column, took)
		}
	}
	return q.handshakes(ctx)
}

// calls measures small calls.
func (q *relayed) calls(ctx context.Context, ways []*way) error {
	if !q.b.wants(callRow.name) && !q.b.wants(slowCallRow.name) && !q.b.wants(addedRow.name) {
		return nil
	}
	medians := map[string]float64{}
	for _, w := range ways {
		took := make([]float64, q.b.z.calls)
		for i := range took {
			var err error
			took[i], err = timed(func() error {
				_, err := w.one.FS().Stat(ctx, filepath.Join(q.direct.dir, "small"))
				return err
			})
			if err != nil {
				return fmt.Errorf("%s, %s: %w", callRow.name, w.column, err)
			}
		}
		slices.Sort(took)
		medians[w.column] = median(took)
		q.b.add(callRow, w.column, medians[w.column])
		q.b.add(slowCallRow, w.column, took[len(took)*99/100])
	}
	q.b.add(addedRow, "ours", medians["ours"]-medians["raw"])
	return nil
}

// handshakes measures how long a stream takes to be made, all questions to the
// registry included, at an executor and with tokens of its own.
func (q *relayed) handshakes(ctx context.Context) error {
	if !q.b.wants(handshakeRow.name) {
		return nil
	}
	e, err := q.service.environment(ctx)
	if err != nil {
		return err
	}
	if err := e.start(); err != nil {
		return err
	}
	defer e.stop()
	to, err := e.dialer(e.harness)
	if err != nil {
		return err
	}
	began := time.Now()
	var made atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range handshakers {
		group.Go(func() error {
			for made.Add(1) <= int64(q.b.z.handshakes) {
				c, err := to.Dial(ctx)
				if err != nil {
					return fmt.Errorf("%s: %w", handshakeRow.name, err)
				}
				if err := c.Close(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	q.b.add(handshakeRow, "ours", ms(time.Since(began))/float64(q.b.z.handshakes))
	return nil
}
