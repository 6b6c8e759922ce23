package soak

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
)

// meter measures the server at intervals, and writes each sample as a CSV line.
type meter struct {
	s  *soak
	wg sync.WaitGroup

	mu      sync.Mutex
	file    *os.File
	phase   string
	samples []sample
	turns   int // number of turns at the last sample
	at      time.Time
}

// startMeter starts a meter that measures until the end of the test.
func startMeter(s *soak) *meter {
	s.T.Helper()
	file, err := os.Create(filepath.Join(s.out, "soak.csv"))
	harness.Must(s.T, err)
	m := &meter{s: s, file: file, phase: phaseWarm, at: s.began}
	_, err = fmt.Fprintln(file, csvHead())
	harness.Must(s.T, err)
	ctx, cancel := context.WithCancel(context.Background())
	m.wg.Go(func() { m.routine(ctx) })
	s.T.Cleanup(func() {
		cancel()
		m.wg.Wait()
		_ = file.Close()
	})
	return m
}

// routine measures until ctx ends.
func (m *meter) routine(ctx context.Context) {
	ticker := time.NewTicker(m.s.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			m.mu.Lock()
			phase := m.phase
			m.mu.Unlock()
			m.keep(phase, m.take())
		case <-ctx.Done():
			return
		}
	}
}

// enter begins a phase.
func (m *meter) enter(phase string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.phase = phase
}

// take makes a measurement.
func (m *meter) take() sample {
	now := sample{seconds: time.Since(m.s.began).Seconds()}
	m.measure(&now)
	return now
}

// keep adds a measurement to the samples of a phase and to the CSV file, and returns it.
func (m *meter) keep(phase string, now sample) sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	now.phase = phase
	turns := m.s.tally.taken()
	if d := time.Since(m.at).Seconds(); d > 0 {
		now.values[turnRate] = float64(turns-m.turns) / d
	}
	m.turns, m.at = turns, time.Now()
	kept := now
	if phase != phaseRest {
		kept.processes, kept.files, kept.descriptors = nil, nil, nil // these lists would need much memory over hours
	}
	m.samples = append(m.samples, kept)
	if _, err := fmt.Fprintln(m.file, now.csv()); err != nil {
		fmt.Fprintln(os.Stderr, "soak: write the measurements:", err)
	}
	return now
}

// kept returns the samples of a phase.
func (m *meter) kept(phase string) (found []sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.samples {
		if phase == "" || s.phase == phase {
			found = append(found, s)
		}
	}
	return found
}

// measure fills in all values except the rate.
func (m *meter) measure(to *sample) {
	srv := m.s.server
	metrics, err := harness.Metrics(srv.metrics)
	if err != nil {
		to.err = err
		return
	}
	pid := srv.pid()
	to.values[memory] = float64(proportionalMemory(pid)) / (1 << 20)
	to.values[heap] = metrics["go_memstats_heap_alloc_bytes"] / (1 << 20)
	to.descriptors = targets(fmt.Sprintf("/proc/%d/fd", pid))
	to.values[descriptors] = float64(len(to.descriptors))
	to.values[goroutines] = metrics["go_goroutines"]
	to.values[threads] = float64(entries(fmt.Sprintf("/proc/%d/task", pid)))
	to.processes = m.s.processes()
	to.values[processes] = float64(len(to.processes))
	to.values[namespaces] = float64(mountNamespaces(pid, to.processes))
	to.values[cgroups] = float64(countDirectories(srv.cgroup))
	to.values[mounts] = float64(lines(fmt.Sprintf("/proc/%d/mountinfo", pid)))
	to.files = m.s.leftFiles()
	to.values[temporaryFiles] = float64(len(to.files))
	to.values[connections] = metrics[`exec_server_connections_active{transport="websocket"}`]
	to.values[sessions] = metrics[`exec_server_sessions_active{state="attached"}`] + metrics[`exec_server_sessions_active{state="detached"}`]
	to.values[tunnels] = metrics["exec_server_tunnels_active"]
}
