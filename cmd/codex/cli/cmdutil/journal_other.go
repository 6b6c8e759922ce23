//go:build !linux

package cmdutil

import (
	"io"
	"log/slog"
)

const journalStream = "JOURNAL_STREAM"

// isJournal reports that there is no journal of systemd.
func isJournal(io.Writer) bool { return false }

func newJournalHandler(to io.Writer, newHandler func(io.Writer) slog.Handler) slog.Handler {
	return newHandler(to)
}
