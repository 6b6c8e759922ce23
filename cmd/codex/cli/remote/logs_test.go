package remote

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"codex.internal/pkg/execproto"
)

// TestTail cuts output, in chunks of several sizes, to its last lines.
func TestTail(t *testing.T) {
	for _, tt := range []struct {
		lines      uint64
		text, want string
	}{
		{0, "a\nb\n", ""}, {1, "a\nb\n", "b\n"}, {2, "a\nb\nc", "b\nc"}, {1, "a\nb", "b"}, {3, "a\nb", "a\nb"}, {5, "", ""}, {1, "no end", "no end"},
		{2, "a\n\n\n", "\n\n"}, {2, "one\ntwo\nthree\n", "two\nthree\n"},
	} {
		for size := 1; size <= len(tt.text)+1; size++ {
			tl := &tail{lines: tt.lines}
			for rest := tt.text; rest != ""; {
				n := min(size, len(rest))
				tl.add(execproto.OutputChunk{Chunk: []byte(rest[:n])})
				rest = rest[n:]
			}
			var got strings.Builder
			for _, c := range tl.last() {
				got.Write(c.Chunk)
			}
			if got.String() != tt.want {
				t.Errorf("%d lines of %q in chunks of %d: got %q, want %q", tt.lines, tt.text, size, got.String(), tt.want)
			}
		}
	}
}

func TestSinceTime(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]string{
		"10m": "2026-01-02T02:54:05Z", "0s": "2026-01-02T03:04:05Z", "2026-01-02T01:02:03Z": "2026-01-02T01:02:03Z", "-5m": "error", "yesterday": "error",
	} {
		at, err := sinceTime(text, now)
		got := at.UTC().Format(time.RFC3339)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("--since %s: got %s, want %s", text, got, want)
		}
	}
	if at, err := sinceTime("", now); err != nil || !at.IsZero() {
		t.Error(fmt.Sprint("without --since: ", at, err))
	}
}
