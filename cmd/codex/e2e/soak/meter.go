package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// meter measures the server at intervals, and writes each sample as a line of CSV.
type meter struct {
	s      *soak
	client http.Client
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	file    *os.File
	phase   string
	samples []sample
	turns   int // of the last sample
	at      time.Time
}

// metricsTime bounds a request for the server's metrics.
const metricsTime = 10 * time.Second

func startMeter(s *soak) (*meter, error) {
	file, err := os.Create(filepath.Join(s.out, "soak.csv"))
	if err != nil {
		return nil, err
	}
	m := &meter{s: s, file: file, phase: phaseWarm, at: s.began, client: http.Client{Timeout: metricsTime}}
	if _, err := fmt.Fprintln(file, csvHead()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	m.wg.Go(func() { m.routine(ctx) })
	return m, nil
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

func (m *meter) close() {
	m.cancel()
	m.wg.Wait()
	m.client.CloseIdleConnections()
	_ = m.file.Close()
}

// enter begins a phase.
func (m *meter) enter(phase string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.phase = phase
}

// take measures.
func (m *meter) take() sample {
	now := sample{seconds: time.Since(m.s.began).Seconds()}
	m.measure(&now)
	return now
}

// keep adds a measurement to those of a phase, and to the CSV file. It returns it.
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
		kept.processes, kept.files, kept.descriptors = nil, nil, nil // hours of them are much
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

// measure fills in all values but the rate.
func (m *meter) measure(to *sample) {
	srv := m.s.server
	metrics, err := m.metrics()
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

// metrics returns the server's metrics by their names with labels.
func (m *meter) metrics() (map[string]float64, error) {
	response, err := m.client.Get(m.s.server.metrics)
	if err != nil {
		return nil, fmt.Errorf("ask for the server's metrics: %w", err)
	}
	defer response.Body.Close()
	found := make(map[string]float64)
	scanner := bufio.NewScanner(response.Body)
	for scanner.Scan() {
		line := scanner.Text()
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || line[0] == '#' {
			continue
		}
		if value, err := strconv.ParseFloat(line[i+1:], 64); err == nil {
			found[line[:i]] = value
		}
	}
	return found, scanner.Err()
}
