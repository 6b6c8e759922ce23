package execclient

import (
	"bytes"
	"strings"
	"testing"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/jsonrpc"
)

// TestLargeAnswersAreForFilesAndBodies: a hostile server sends an answer that is larger than
// the method permits.
func TestLargeAnswersAreForFilesAndBodies(t *testing.T) {
	result := bytes.Repeat([]byte{' '}, maxAnswer+1)
	for method, accepted := range map[string]bool{
		execproto.MethodFSReadFile: true, execproto.MethodHTTPRequest: true, execproto.MethodFSReadDirectory: false, execproto.MethodProcessRead: false,
	} {
		u := &callUnderWay{l: &connection{}, method: method, answer: make(chan jsonrpc.Message, 1)}
		u.answer <- jsonrpc.Message{Result: result}
		_, err := u.wait(t.Context())
		if accepted != (err == nil) || err != nil && !strings.Contains(err.Error(), method) {
			t.Errorf("%s: got error %v; want that it is accepted: %v, and that an error names the method", method, err, accepted)
		}
	}
}
