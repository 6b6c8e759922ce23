package execserver

import (
	"fmt"
	"strings"
	"testing"
)

// TestHandshake: in each state of the handshake (docs/spec/wire.md §3.1), these messages get
// these answers. The message initialized has no answer: another request shows the state after
// it.
func TestHandshake(t *testing.T) {
	_, url := newTestServer(t, Options{})
	const (
		initialize  = `{"id":1,"method":"initialize","params":{"clientName":"t"}}`
		initialized = `{"method":"initialized"}`
		request     = `{"id":1,"method":"environment/status"}`
		note        = `{"method":"process/ack","params":{"processId":"p","seq":1}}`
		unknown     = `{"id":1,"method":"no/method"}`

		answered, done = initialize, initialize + "\n" + initialized
	)
	for _, tt := range []struct{ before, messages, want string }{
		{"", initialize, `"sessionId"`},
		{"", initialized, "1002 initialized came before initialize"},
		{"", request, "client must call initialize before using environment info methods"},
		{"", note, "client must call initialize before using exec methods"},
		{"", unknown, "exec-server does not implement `no/method`"},

		{answered, initialize, "initialize may only be sent once per connection"},
		{answered, initialized + "\n" + request, `"status":"ready"`},
		{answered, request, "client must send initialized before using environment info methods"},
		{answered, note, "client must send initialized before using exec methods"},

		{done, initialize, "initialize may only be sent once per connection"},
		{done, initialized + "\n" + request, `"status":"ready"`},
		{done, request, `"status":"ready"`},
		{done, note + "\n" + request, `"status":"ready"`},
	} {
		p := dial(t, url)
		for message := range strings.Lines(tt.before) {
			p.text(message)
		}
		if tt.before != "" {
			p.read()
		}
		for message := range strings.Lines(tt.messages) {
			p.text(message)
		}
		got := ""
		if strings.HasPrefix(tt.want, "1002 ") {
			code, reason := p.closing()
			got = fmt.Sprint(code, " ", reason)
		} else if m := p.read(); m.Error != nil {
			got = m.Error.Message
		} else {
			got = string(m.Result)
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("after %q, to %q got %q, want %q", tt.before, tt.messages, got, tt.want)
		}
		p.ws.Close()
	}
}
