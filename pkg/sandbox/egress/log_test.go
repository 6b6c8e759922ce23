package egress

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestRecordsAreLimited: repeated refusals of a process do not fill the log, and all its hosts are
// still reported.
func TestRecordsAreLimited(t *testing.T) {
	const more = 10
	for level, wantRefusals := range map[slog.Level]int{slog.LevelInfo: maxRecords, slog.LevelDebug: maxRecords + more} {
		var log bytes.Buffer
		host := NewHost(Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))})
		policy, err := NewPolicy(Config{})
		if err != nil {
			t.Fatal(err)
		}
		reported := 0
		for process := range 2 {
			log.Reset()
			x, err := host.Start(policy, Hooks{Report: func(Report) { reported++ }})
			if err != nil {
				t.Fatal(err)
			}
			for range maxRecords + more {
				x.report(attempt{Question: Question{Host: "a.test"}}, decision{verdict: Block, reason: ReasonNotAllowed}, true)
			}
			x.Close()
			text := log.String()
			if n := strings.Count(text, "host=a.test"); n != wantRefusals {
				t.Errorf("level %v, process %d: %d records of refusals, want %d", level, process, n, wantRefusals)
			}
			if n := strings.Count(text, "level=INFO msg=\"network decision\""); n != maxRecords {
				t.Errorf("level %v, process %d: %d of them have level info, want %d", level, process, n, maxRecords)
			}
			if !strings.Contains(text, "records=10 limit=256") {
				t.Errorf("level %v, process %d: the log does not say how many were left out:\n%s", level, process, text[max(0, len(text)-200):])
			}
		}
		if want := 2 * (maxRecords + more); reported != want {
			t.Errorf("level %v: %d reports, want %d", level, reported, want)
		}
	}
}

// TestRecordsOfDerivedLoggers: a logger with attributes shares the limit.
func TestRecordsOfDerivedLoggers(t *testing.T) {
	var log bytes.Buffer
	limited, _ := limitRecords(slog.New(slog.NewTextHandler(&log, nil)))
	for range maxRecords {
		limited.With("a", 1).Warn("w")
		limited.WithGroup("g").Info("i", "b", 2)
	}
	if n := strings.Count(log.String(), "\n"); n != maxRecords {
		t.Errorf("%d records, want %d", n, maxRecords)
	}
}
