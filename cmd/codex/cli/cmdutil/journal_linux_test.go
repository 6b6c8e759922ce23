package cmdutil

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"
	"testing"
)

func TestJournalPriorities(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(newJournalHandler(&out, func(w io.Writer) slog.Handler {
		return slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})
	}))
	log.Error("a")
	log.With("k", 1).Warn("b")
	log.WithGroup("g").Info("c", "k", 2)
	log.Debug("d")
	want := "<3>level=ERROR msg=a\n<4>level=WARN msg=b k=1\n<6>level=INFO msg=c g.k=2\n<7>level=DEBUG msg=d\n"
	if got := out.String(); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

// Only the stream that the variable names is the journal: a service may have redirected its standard error.
func TestIsJournal(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	var st syscall.Stat_t
	if err := syscall.Fstat(int(write.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]bool{
		fmt.Sprintf("%d:%d", st.Dev, st.Ino): true, fmt.Sprintf("%d:%d", st.Dev, st.Ino+1): false, "": false, "x": false,
	} {
		t.Setenv(journalStream, value)
		if got := isJournal(write); got != want {
			t.Errorf("JOURNAL_STREAM=%q: got %v, want %v", value, got, want)
		}
	}
}
