// Package jsonrpc reads and writes the messages of the exec-server protocol
// (docs/spec/wire.md §2.1): JSON-RPC 2.0 without its version member.
//
// Decode returns the kind and the parts of a message, without decoding params or
// results; the Append functions append messages to a buffer.
package jsonrpc

import (
	"errors"
	"fmt"

	"codex.internal/pkg/wire/jsonwire"
)

// Kind is the kind of a message.
type Kind uint8

// The kinds of messages.
const (
	Request Kind = iota + 1
	Notification
	Response
	ErrorResponse
)

// ID is the id of a request: a string or a 64-bit integer, kept as its JSON text so
// that the answer has the same text. It can be compared and is a valid map key. The
// zero ID stands for no id.
type ID struct{ text string }

// IntID returns the id that is the integer n.
func IntID(n int64) ID { return ID{string(jsonwire.AppendInt(nil, n))} }

// IsZero reports whether this is the zero ID.
func (id ID) IsZero() bool { return id.text == "" }

// String returns the id's JSON text.
func (id ID) String() string { return id.text }

// Error is a JSON-RPC error: the answer to a request that failed.
type Error struct {
	Code    int
	Message string
	Data    []byte // JSON text; nil: absent
}

// Error implements error with the message alone.
func (e *Error) Error() string { return e.Message }

// Message is one decoded message. Params, Result and Trace are JSON text that
// aliases the decoded message; nil means absent. Trace may be any value.
type Message struct {
	Kind   Kind
	ID     ID
	Method string
	Params []byte
	Result []byte
	Trace  []byte
	Err    *Error
}

// members are the unparsed parts of a message.
type members struct {
	id, method, params, result, err []byte
	trace                           []byte
}

// Decode decodes one message. For an invalid text it returns an error, which
// servers answer with code -32600 and id -1.
//
// The members determine the kind of a message: with method and id it is a
// request, with method alone a notification, with id and result a response, with
// id and error an error response. Unknown members are ignored.
func Decode(text []byte) (Message, error) {
	var found members
	r := jsonwire.NewReader(text)
	err := r.Object("a JSON-RPC message", func(name []byte) error {
		at := found.member(string(name))
		if at == nil {
			return r.Skip()
		}
		if *at != nil {
			return fmt.Errorf("duplicate field `%s`", name)
		}
		raw, err := r.Raw()
		*at = raw
		return err
	})
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return Message{}, err
	}
	return found.message()
}

func (m *members) member(name string) *[]byte {
	switch name {
	case "id":
		return &m.id
	case "method":
		return &m.method
	case "params":
		return &m.params
	case "result":
		return &m.result
	case "error":
		return &m.err
	case "trace":
		return &m.trace
	default:
		return nil
	}
}

var errNoMessage = errors.New("data is not a request, notification, response or error")

func (m *members) message() (Message, error) {
	out := Message{Trace: m.trace}
	if m.id != nil {
		id, err := decodeID(m.id)
		if err != nil {
			return Message{}, err
		}
		out.ID = id
	}
	switch {
	case m.method != nil:
		method, err := jsonwire.NewReader(m.method).String()
		if err != nil {
			return Message{}, fmt.Errorf("method: %w", err)
		}
		out.Kind, out.Method, out.Params = Notification, method, m.params
		if m.id != nil {
			out.Kind = Request
		}
	case m.id != nil && m.result != nil:
		out.Kind, out.Result = Response, m.result
	case m.id != nil && m.err != nil:
		e, err := decodeError(m.err)
		if err != nil {
			return Message{}, fmt.Errorf("error: %w", err)
		}
		out.Kind, out.Err = ErrorResponse, e
	default:
		return Message{}, errNoMessage
	}
	return out, nil
}

// decodeID decodes a string or a 64-bit integer. Any other value is an error.
// Codex CLI treats a message with such an id as a notification, so its peer gets
// no answer.
func decodeID(raw []byte) (ID, error) {
	r := jsonwire.NewReader(raw)
	switch r.Peek() {
	case jsonwire.String:
		return ID{string(raw)}, nil
	case jsonwire.Number:
		n, err := r.Int64("a string or a 64-bit integer")
		if err != nil {
			return ID{}, fmt.Errorf("id: %w", err)
		}
		return IntID(n), nil
	default:
		return ID{}, errors.New("id: must be a string or a 64-bit integer")
	}
}

func decodeError(raw []byte) (*Error, error) {
	e := &Error{}
	r := jsonwire.NewReader(raw)
	err := r.Struct("an error object", jsonwire.FieldsFunc(func(c *jsonwire.Codec) {
		c.Int("code", jsonwire.Need, &e.Code)
		c.Text("message", jsonwire.Need, &e.Message)
		c.Read("data", 0, func(r *jsonwire.Reader) (err error) {
			e.Data, err = r.Raw()
			return err
		})
	}))
	return e, err
}

// AppendRequest appends a request. Params are JSON text; nil is sent as null,
// because some servers want the member.
func AppendRequest(b []byte, id ID, method string, params []byte) []byte {
	b = append(b, `{"id":`...)
	b = append(b, id.text...)
	b = append(b, `,"method":`...)
	b = jsonwire.AppendString(b, method)
	b = append(b, `,"params":`...)
	if params == nil {
		b = append(b, "null"...)
	}
	b = append(b, params...)
	return append(b, '}')
}

// AppendNotification appends a notification; nil params are left out.
func AppendNotification(b []byte, method string, params []byte) []byte {
	b = append(b, `{"method":`...)
	b = jsonwire.AppendString(b, method)
	if params != nil {
		b = append(b, `,"params":`...)
		b = append(b, params...)
	}
	return append(b, '}')
}

// AppendResultHeader appends the beginning of a response. The caller appends
// the result and a closing brace.
func AppendResultHeader(b []byte, id ID) []byte {
	b = append(b, `{"id":`...)
	b = append(b, id.text...)
	return append(b, `,"result":`...)
}

// AppendError appends an error response.
func AppendError(b []byte, id ID, e *Error) []byte {
	b = append(b, `{"error":{"code":`...)
	b = jsonwire.AppendInt(b, int64(e.Code))
	b = append(b, `,"message":`...)
	b = jsonwire.AppendString(b, e.Message)
	if e.Data != nil {
		b = append(b, `,"data":`...)
		b = append(b, e.Data...)
	}
	b = append(b, `},"id":`...)
	b = append(b, id.text...)
	return append(b, '}')
}
