package harness

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"codex.internal/pkg/testutil"
)

// Process is a process of the machine.
type Process struct {
	PID, Parent, UID int
	Command          string // its arguments, separated by blanks
}

// Processes returns all processes.
func Processes() (all []Process) {
	names, _ := os.ReadDir("/proc")
	for _, name := range names {
		pid, err := strconv.Atoi(name.Name())
		if err != nil {
			continue
		}
		dir := filepath.Join("/proc", name.Name())
		info, err := os.Stat(dir)
		stat, err2 := os.ReadFile(filepath.Join(dir, "stat"))
		// The name of the program, in parentheses, may contain any characters.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if err != nil || err2 != nil || len(fields) < 2 {
			continue // it has ended
		}
		parent, _ := strconv.Atoi(fields[1])
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		all = append(all, Process{
			PID: pid, Parent: parent, UID: int(info.Sys().(*syscall.Stat_t).Uid),
			Command: strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " ")),
		})
	}
	return all
}

// ErrNoController means that no cgroup hierarchy has the file that NewCgroup needs.
var ErrNoController = errors.New("no hierarchy of cgroups has the file")

// NewCgroup creates a cgroup, of version 1 or 2, that has a file such as pids.max. When the test
// ends, it kills the processes in the cgroup and removes it.
func NewCgroup(t *testing.T, file string) (dir string, err error) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	Must(t, err)
	err = ErrNoController
	for line := range strings.Lines(string(mounts)) {
		head, tail, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(head); len(fields) < 5 || !strings.HasPrefix(tail, "cgroup") {
			continue
		}
		if dir, err = os.MkdirTemp(strings.Fields(head)[4], "codex-test-"); err != nil {
			continue
		}
		if _, err = os.Stat(filepath.Join(dir, file)); err == nil {
			t.Cleanup(func() { removeCgroup(t, dir) })
			// A server of any user reads its limits there.
			return dir, os.Chmod(dir, 0o755)
		}
		_ = os.Remove(dir)
	}
	return "", err
}

// removeCgroup kills the processes in a cgroup and its children, and removes them.
func removeCgroup(t *testing.T, dir string) {
	t.Helper()
	var all []string
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			all = append([]string{path}, all...)
		}
		return nil // other calls remove cgroups at the same time
	})
	for _, dir := range all {
		testutil.Eventually(context.Background(), t, "no process in the cgroup", func() (string, bool) {
			text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
			for field := range strings.FieldsSeq(string(text)) {
				if pid, err := strconv.Atoi(field); err == nil {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
			if err == nil {
				err = os.Remove(dir)
			}
			return fmt.Sprint(string(text), err), err == nil || errors.Is(err, fs.ErrNotExist)
		})
	}
}

// metricsTime bounds a request for metrics.
const metricsTime = 10 * time.Second

// Metrics returns the metrics of a server by their names with labels.
func Metrics(url string) (map[string]float64, error) {
	client := http.Client{Timeout: metricsTime, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http" + strings.TrimPrefix(strings.TrimPrefix(url, "ws"), "http") + "/metrics")
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
