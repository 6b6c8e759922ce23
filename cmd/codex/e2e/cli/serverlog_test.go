package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// serverLog is a log in JSON that is read while it is written.
type serverLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *serverLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// records returns the records that have been written so far.
func (l *serverLog) records(t *testing.T) (list []map[string]any) {
	t.Helper()
	l.mu.Lock()
	text := l.text.String()
	l.mu.Unlock()
	text = text[:strings.LastIndexByte(text, '\n')+1] // the last record may be incomplete
	for line := range strings.Lines(text) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("%q: got error %v, want no error", line, err)
		}
		list = append(list, record)
	}
	return list
}

// await waits for a record with this message.
func (l *serverLog) await(t *testing.T, message string) (found map[string]any) {
	t.Helper()
	harness.Eventually(t, "a record "+message, func() (missing []string) {
		for _, record := range l.records(t) {
			if record["msg"] == message {
				found = record
				return nil
			}
		}
		return []string{message}
	})
	return found
}

// cause returns the cause in the record about a process's end. It returns "" if there is no record yet.
func (l *serverLog) cause(t *testing.T, process string) string {
	t.Helper()
	for _, record := range l.records(t) {
		if record["msg"] == "process ended" && record["process"] == process {
			cause, _ := record["cause"].(string)
			return cause
		}
	}
	return ""
}
