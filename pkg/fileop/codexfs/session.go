package codexfs

import (
	"fmt"
	"io"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/fileop/fshelper"
	"codex.internal/pkg/fileop/fsops"
	"codex.internal/pkg/wire/jsonwire"
	"codex.internal/pkg/wire/pathuri"
)

// session is one run of the helper.
type session struct {
	in  *input
	out *output
}

// run answers the request, or all requests about one handle. It returns an error
// if it could not answer.
func (s *session) run() error {
	rq, err := s.next()
	if err == io.EOF {
		return errNoRequest
	}
	if err != nil {
		return err
	}
	switch rq.operation {
	case execproto.MethodFSOpen, execproto.MethodFSOpenArchive:
		return s.serveHandle(rq)
	case execproto.MethodFSWatch:
		return s.serveWatch(rq)
	default:
		return s.do(rq)
	}
}

// request is one request. Its params are JSON.
type request struct {
	operation string
	home      string // replaces `~` at the beginning of paths; "": unknown
	params    []byte // aliases the input
}

// next reads the next request.
func (s *session) next() (request, error) {
	doc, err := s.in.next()
	if err != nil {
		return request{}, err
	}
	return decodeRequest(doc)
}

// decodeRequest decodes a request, without its params.
func decodeRequest(doc []byte) (request, error) {
	var rq request
	r := jsonwire.NewReader(doc)
	err := r.Struct("a request", jsonwire.FieldsFunc(func(c *jsonwire.Codec) {
		c.Text("operation", jsonwire.Need, &rq.operation)
		c.Read("home", 0, func(r *jsonwire.Reader) error {
			uri, err := r.String()
			if err != nil {
				return err
			}
			rq.home, err = pathuri.Parse(uri, "")
			return err
		})
		c.Read("params", jsonwire.Need, func(r *jsonwire.Reader) (err error) {
			rq.params, err = r.Raw()
			return err
		})
	}))
	if err == nil {
		err = r.End()
	}
	return rq, err
}

func unknownOperation(operation string) error {
	const show = 64
	return fmt.Errorf("unknown operation `%s`", operation[:min(len(operation), show)])
}

// answer answers with a result.
func (s *session) answer(operation string, r fsops.Appender) error {
	s.out.begin(operation, 0)
	s.out.buf = r.AppendJSON(s.out.buf)
	return s.out.end()
}

// fail answers with an error.
func (s *session) fail(err error) error {
	s.out.buf = fshelper.AppendError(s.out.buf[:0], fsops.Error(err))
	s.out.flush()
	return s.out.err
}
