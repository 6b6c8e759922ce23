package files

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"codex.internal/pkg/host/process"
)

// TestLinesOfAHelper: nextLine returns the lines of a helper one by one, however they are
// divided into reads. Scenario: a watch reports changes faster than the client reads them, so
// that the pipe has two lines.
func TestLinesOfAHelper(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for name, pieces := range map[string][]string{
		"one by one":          {"a\n", "b\n", long + "\n"},
		"together":            {"a\nb\n" + long + "\n"},
		"with half of a line": {"a\nb", "\n" + long[:70_000], long[70_000:] + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			h := &helper{child: &process.Child{Stdout: r}, answer: []byte("an earlier answer\n")}
			h.told = len(h.answer)
			go func() {
				defer w.Close()
				for _, piece := range pieces {
					_, _ = io.WriteString(w, piece)
				}
			}()
			for i, want := range []string{"a\n", "b\n", long + "\n"} {
				if got, err := h.nextLine(); err != nil || string(got) != want {
					t.Fatalf("line %d: %s, %v", i, fmt.Sprintf("%.20q", got), err)
				}
			}
			if got, err := h.nextLine(); err != io.EOF {
				t.Errorf("after the end: %q, %v", got, err)
			}
		})
	}
}
