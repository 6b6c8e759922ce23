//go:build linux

package codexfs

import (
	"errors"
	"fmt"
	"io"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/fileop/fshelper"
	"codex.internal/pkg/fileop/fsops"
	"codex.internal/pkg/wire/jsonwire"
)

// session is one run of the helper.
type session struct {
	in  *input
	out *output
}

// run answers the request, or all requests about one handle. It returns an error
// if there is no answer.
func (s *session) run() error {
	operation, params, err := s.request()
	if err == io.EOF {
		return errNoRequest
	}
	if err != nil {
		return err
	}
	if operation == execproto.MethodFSOpen {
		return s.serveHandle(params)
	}
	return s.do(operation, params)
}

// request reads the next request. Params is JSON and alias the input.
func (s *session) request() (operation string, params []byte, err error) {
	doc, err := s.in.next()
	if err != nil {
		return "", nil, err
	}
	return decodeRequest(doc)
}

// decodeRequest returns the operation and the params of a request.
func decodeRequest(doc []byte) (operation string, params []byte, err error) {
	named := false
	r := jsonwire.NewReader(doc)
	err = r.Object("a request", func(name []byte) (err error) {
		switch {
		case string(name) == "operation" && !named:
			named = true
			operation, err = r.String()
			return err
		case string(name) == "params" && params == nil:
			params, err = r.Raw()
			return err
		case string(name) == "operation", string(name) == "params":
			return fmt.Errorf("duplicate field `%s`", name)
		default:
			return r.Skip()
		}
	})
	if err == nil {
		err = r.End()
	}
	switch {
	case err != nil:
		return "", nil, err
	case !named:
		return "", nil, errors.New("missing field `operation`")
	case params == nil:
		return "", nil, errors.New("missing field `params`")
	}
	return operation, params, nil
}

func unknownOperation(operation string) error {
	const show = 64
	return fmt.Errorf("unknown operation `%s`", operation[:min(len(operation), show)])
}

// appender is a result that encodes itself.
type appender interface {
	AppendJSON(b []byte) []byte
}

// answer answers with r unless there is an error.
func (s *session) answer(operation string, r appender, err error) error {
	if err != nil {
		return s.fail(err)
	}
	s.out.begin(operation, 0)
	s.out.buf = r.AppendJSON(s.out.buf)
	return s.out.end()
}

// finish answers {} or with the error.
func (s *session) finish(operation string, err error) error {
	return s.answer(operation, empty{}, err)
}

type empty struct{}

func (empty) AppendJSON(b []byte) []byte { return append(b, '{', '}') }

// fail answers with an error.
func (s *session) fail(err error) error {
	s.out.buf = fshelper.AppendError(s.out.buf[:0], fsops.Error(err))
	s.out.flush()
	return s.out.err
}
