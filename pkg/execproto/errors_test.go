package execproto

import (
	"errors"
	"fmt"
	"testing"

	"codex.internal/pkg/wire/jsonrpc"
)

// TestRefusalsAreRecognised passes each predicate each of the errors that a client must
// distinguish, and the same text under another code.
func TestRefusalsAreRecognised(t *testing.T) {
	exists, starting := ProcessExists("p"), ProcessStarting("p")
	if exists.Message != "process p already exists" || starting.Message != "process id p is starting" {
		t.Errorf("the messages are %q and %q, and clients match on others", exists.Message, starting.Message)
	}
	for _, tt := range []struct {
		code             int
		message          string
		exists, starting bool
	}{
		{exists.Code, exists.Message, true, false},
		{starting.Code, starting.Message, false, true},
		{CodeInternal, exists.Message, false, false},
		{CodeInternal, starting.Message, false, false},
		{CodeInvalidRequest, "unknown process id p", false, false},
	} {
		err := fmt.Errorf("call: %w", &jsonrpc.Error{Code: tt.code, Message: tt.message})
		if got := IsProcessExists(err); got != tt.exists {
			t.Errorf("IsProcessExists(%d, %q) is %t, want %t", tt.code, tt.message, got, tt.exists)
		}
		if got := IsProcessStarting(err); got != tt.starting {
			t.Errorf("IsProcessStarting(%d, %q) is %t, want %t", tt.code, tt.message, got, tt.starting)
		}
	}
	for _, err := range []error{nil, errors.New(exists.Message)} {
		if IsProcessExists(err) || IsProcessStarting(err) {
			t.Errorf("%v is not of a server", err)
		}
	}
}
