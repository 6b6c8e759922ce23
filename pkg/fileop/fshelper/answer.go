package fshelper

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"unicode/utf8"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/jsonrpc"
	"codex.internal/pkg/wire/jsonwire"
	"codex.internal/pkg/wire/logtext"
	"golang.org/x/sys/unix"
)

// The text around a response. An answer consists of OKPrefix, the operation, OperationSuffix,
// the response, OKSuffix and a newline.
const (
	OKPrefix        = `{"status":"ok","payload":{"operation":"`
	OperationSuffix = `","response":`
	OKSuffix        = `}}`
)

// AppendOK appends the beginning of the answer to an operation. The operation's name must not
// need escapes. The caller then appends the response, OKSuffix and a newline.
func AppendOK(b []byte, operation string) []byte {
	b = append(b, OKPrefix...)
	b = append(b, operation...)
	return append(b, OperationSuffix...)
}

// AppendError appends the answer to a request that failed, with its newline.
func AppendError(b []byte, e *jsonrpc.Error) []byte {
	b = append(b, `{"status":"error","payload":{"code":`...)
	b = jsonwire.AppendInt(b, int64(e.Code))
	b = append(b, `,"message":`...)
	b = jsonwire.AppendString(b, e.Message)
	return append(b, "}}\n"...)
}

// ParseAnswer parses the answer to an operation: a line with or without its
// newline. The helper is not trusted, so the answer may be any text.
//
// response aliases answer. It is a JSON object without line ends that has the members of the
// operation's result and no others, so it can be sent unchanged. rpcErr is an error that the
// helper reports, with code -32004, -32600 or -32603. err is the error of a malformed answer.
// The caller sends its text to the client with code -32603, and must not use the helper again.
// Exactly one of the three is not nil.
func ParseAnswer(answer []byte, operation string) (response []byte, rpcErr *jsonrpc.Error, err error) {
	got, response, rpcErr, err := parseAnswer(answer)
	switch {
	case err != nil:
		return nil, nil, undecodable(err)
	case rpcErr != nil:
		return nil, rpcErr, nil
	case got != operation:
		return nil, nil, fmt.Errorf("unexpected fs sandbox helper response: expected %s, got %s", operation, logtext.Clip(got, 64))
	}
	if err := checkResponse(response, operation); err != nil {
		return nil, nil, undecodable(err)
	}
	return response, nil, nil
}

func undecodable(err error) error {
	return fmt.Errorf("failed to encode or decode fs sandbox helper message: %w", err)
}

var (
	errTooLong  = errors.New("the answer is too long")
	errNoAnswer = errors.New("expected a status of ok or error before its payload")
)

// parseAnswer returns the parts of an answer. response is valid JSON.
func parseAnswer(answer []byte) (operation string, response []byte, rpcErr *jsonrpc.Error, err error) {
	if len(answer) > MaxAnswer {
		return "", nil, nil, errTooLong
	}
	status := ""
	done := false
	r := jsonwire.NewReader(answer)
	err = r.Object("an answer of the fs sandbox helper", func(name []byte) (err error) {
		switch {
		case string(name) == "status" && status == "":
			status, err = r.String()
			if err == nil && status != "ok" && status != "error" {
				err = errNoAnswer
			}
		case string(name) == "payload" && status == "ok" && !done:
			done = true
			operation, response, err = parsePayload(r)
		case string(name) == "payload" && status == "error" && !done:
			done = true
			rpcErr, err = parseError(r)
		default:
			err = errNoAnswer
		}
		return err
	})
	if err == nil {
		err = r.End()
	}
	if err == nil && !done {
		err = errNoAnswer
	}
	return operation, response, rpcErr, err
}

func parsePayload(r *jsonwire.Reader) (operation string, response []byte, err error) {
	err = r.Struct("a payload", jsonwire.FieldsFunc(func(c *jsonwire.Codec) {
		c.NoOthers()
		c.Text("operation", jsonwire.Need, &operation)
		c.Read("response", jsonwire.Need, func(r *jsonwire.Reader) (err error) {
			response, err = r.Raw()
			return err
		})
	}))
	return operation, response, err
}

// parseError reads an error. Codes other than those of file system requests become
// -32603.
func parseError(r *jsonwire.Reader) (*jsonrpc.Error, error) {
	e := &jsonrpc.Error{}
	err := r.Struct("an error object", jsonwire.FieldsFunc(func(c *jsonwire.Codec) {
		c.NoOthers()
		c.Int("code", jsonwire.Need, &e.Code)
		c.Read("message", jsonwire.Need, func(r *jsonwire.Reader) error {
			text, err := r.StringBytes()
			e.Message = logtext.Clip(string(text[:min(len(text), maxMessage+utf8.UTFMax)]), maxMessage) // the text may have megabytes
			return err
		})
	}))
	if e.Code != execproto.CodeNotFound && e.Code != execproto.CodeInvalidRequest {
		e.Code = execproto.CodeInternal
	}
	return e, err
}

// FailureText returns the error message, for code -32603, about a helper whose exit code was
// not 0. The message has the helper's status and its stderr.
func FailureText(status syscall.WaitStatus, stderr []byte) string {
	s := fmt.Sprintf("exit status: %d", status.ExitStatus())
	if status.Signaled() {
		s = fmt.Sprintf("signal: %d", status.Signal())
		if name := unix.SignalName(status.Signal()); name != "" {
			s += " (" + name + ")"
		}
		if status.CoreDump() {
			s += " (core dumped)"
		}
	}
	text := strings.TrimSpace(string(stderr[:min(len(stderr), MaxStderr)]))
	text = logtext.Clip(strings.ToValidUTF8(text, "\uFFFD"), maxStderr)
	return "fs sandbox helper failed with status " + s + ": " + text
}
