package execclient

import (
	"strings"
	"testing"

	"codex.internal/pkg/execproto"
)

// TestUnknownKindsEndAWatch: a kind must be a word of the protocol, because a hostile server
// could send any text. An unknown kind ends the watch, and no event of its notification is
// reported.
func TestUnknownKindsEndAWatch(t *testing.T) {
	w := &Watch{f: &FS{c: &Client{}}, woken: make(chan struct{}, 1), id: 1}
	w.receive(&execproto.Changed{WatchID: 1, Seq: 1, Events: []execproto.WatchEvent{
		{Path: "file:///a", Kind: execproto.WatchCreated}, {Path: "file:///b", Kind: "\x1b[31mred"},
	}})
	changes, err := w.Next(t.Context())
	if err == nil || !strings.Contains(err.Error(), `\x1b[31mred`) || len(changes.Events) > 0 {
		t.Errorf("told %+v, %v", changes, err)
	}
}
