package cmdutil

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
)

// journalStream is the variable with the device and the inode of the stream that leads to systemd's journal.
const journalStream = "JOURNAL_STREAM"

// isJournal reports whether what is written to w goes to systemd's journal.
func isJournal(w io.Writer) bool {
	if d, ok := w.(*display); ok {
		w = d.to
	}
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	var device, inode uint64
	if n, _ := fmt.Sscanf(os.Getenv(journalStream), "%d:%d", &device, &inode); n != 2 {
		return false
	}
	var st syscall.Stat_t
	return syscall.Fstat(int(f.Fd()), &st) == nil && st.Dev == device && st.Ino == inode
}

// journalHandler writes the priority of each record before it, as <4>, which the journal removes: journalctl -p warning then
// shows warnings and errors alone.
type journalHandler struct {
	slog.Handler
	to *prefixed
}

// newJournalHandler returns the handler that newHandler returns for a writer, with priorities.
func newJournalHandler(to io.Writer, newHandler func(io.Writer) slog.Handler) slog.Handler {
	p := &prefixed{to: to}
	return &journalHandler{newHandler(p), p}
}

func (h *journalHandler) Handle(ctx context.Context, r slog.Record) error {
	h.to.mu.Lock()
	defer h.to.mu.Unlock()
	h.to.priority = priorityOf(r.Level)
	return h.Handler.Handle(ctx, r)
}

func (h *journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &journalHandler{h.Handler.WithAttrs(attrs), h.to}
}

func (h *journalHandler) WithGroup(name string) slog.Handler {
	return &journalHandler{h.Handler.WithGroup(name), h.to}
}

// priorityOf returns the priority of syslog for a level.
func priorityOf(level slog.Level) int {
	const errors, warnings, infos, debugging = 3, 4, 6, 7
	switch {
	case level >= slog.LevelError:
		return errors
	case level >= slog.LevelWarn:
		return warnings
	case level >= slog.LevelInfo:
		return infos
	}
	return debugging
}

// prefixed writes the priority of the record that is being handled before it. A handler writes each record with one call.
type prefixed struct {
	mu       sync.Mutex // held while a record is handled
	priority int
	to       io.Writer
}

func (p *prefixed) Write(b []byte) (int, error) {
	if _, err := p.to.Write(append(fmt.Appendf(nil, "<%d>", p.priority), b...)); err != nil {
		return 0, err
	}
	return len(b), nil
}
