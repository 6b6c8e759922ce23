package codexfs

import (
	"context"
	"errors"
	"io"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/fileop/fsops"
	"codex.internal/pkg/wire/b64"
	"codex.internal/pkg/wire/jsonwire"
	"codex.internal/pkg/wire/pathuri"
)

// handle is the open file of a session.
type handle struct {
	*fsops.File
	id    string
	mode  execproto.OpenMode
	block []byte // buffer of readBlock
}

// serveHandle answers fs/open or fs/openArchive, and then the requests about the handle. It
// returns when the handle is closed, after a system error, or at the end of the input. If an
// atomic write was not closed, its target is unchanged.
func (s *session) serveHandle(open request) error {
	h, err := s.open(open)
	if h == nil || err != nil {
		return err
	}
	defer h.Abandon()
	for {
		rq, err := s.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch rq.operation {
		case execproto.MethodFSReadBlock:
			err = s.readBlock(h, rq.params)
		case execproto.MethodFSWriteBlock:
			err = s.writeBlock(h, rq.params)
		case execproto.MethodFSClose:
			return s.told(h, rq.operation, h.Close())
		default:
			err = unknownOperation(rq.operation)
		}
		if err == errEnded {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// errEnded means that a system error has closed the handle. The error was already sent as the
// answer.
var errEnded = errors.New("ended")

// open answers fs/open or fs/openArchive. If the answer is an error, the handle is nil.
func (s *session) open(rq request) (*handle, error) {
	var open func() (*handle, error)
	if rq.operation == execproto.MethodFSOpen {
		p, err := execproto.Decode[execproto.OpenParams](rq.params)
		if err != nil {
			return nil, err
		}
		open = func() (*handle, error) { return openHandle(&p, rq.home) }
	} else {
		p, err := execproto.Decode[execproto.OpenArchiveParams](rq.params)
		if err != nil {
			return nil, err
		}
		open = func() (*handle, error) { return openArchive(&p, rq.home) }
	}
	h, err := open()
	if err != nil {
		return nil, s.fail(err)
	}
	if err := s.answer(rq.operation, execproto.OpenResult{HandleID: h.id}); err != nil {
		h.Abandon()
		return nil, err
	}
	return h, nil
}

func openArchive(p *execproto.OpenArchiveParams, home string) (*handle, error) {
	if err := fsops.CheckHandleID(p.HandleID); err != nil {
		return nil, err
	}
	path, err := pathuri.Parse(p.Path, home)
	if err != nil {
		return nil, err
	}
	f, err := fsops.OpenArchive(context.Background(), path, p, true)
	return &handle{File: f, id: p.HandleID, mode: fsops.ModeOf(p.Mode)}, err
}

func openHandle(p *execproto.OpenParams, home string) (*handle, error) {
	if err := fsops.CheckHandleID(p.HandleID); err != nil {
		return nil, err
	}
	path, err := pathuri.Parse(p.Path, home)
	if err != nil {
		return nil, err
	}
	f, err := fsops.OpenFile(path, p, true)
	return &handle{File: f, id: p.HandleID, mode: p.Mode}, err
}

func (s *session) readBlock(h *handle, params []byte) error {
	p, err := decodeBlock(params, "len")
	if err != nil {
		return err
	}
	if err := fsops.CheckMode(h.id, h.mode, execproto.OpenRead); err != nil {
		return s.fail(err)
	}
	if err := fsops.CheckReadLength(p.len); err != nil {
		return s.fail(err)
	}
	if uint64(cap(h.block)) < p.len {
		h.block = make([]byte, p.len)
	}
	n, eof, err := h.ReadBlock(h.block[:p.len], p.offset)
	if err != nil {
		return s.drop(err)
	}
	s.out.begin(execproto.MethodFSReadBlock, n/3*4)
	s.out.text(`{"chunk":"`)
	s.out.base64(h.block[:n])
	s.out.text(`","eof":`)
	s.out.buf = jsonwire.AppendBool(s.out.buf, eof)
	s.out.text(`}`)
	return s.out.end()
}

func (s *session) writeBlock(h *handle, params []byte) error {
	p, err := decodeBlock(params, "chunk")
	if err != nil {
		return err
	}
	if err := fsops.CheckMode(h.id, h.mode, execproto.OpenReplace); err != nil {
		return s.fail(err)
	}
	if err := fsops.CheckWriteLength(len(p.chunk)); err != nil {
		return s.fail(err)
	}
	if err := h.WriteBlock(p.chunk, p.offset); err != nil {
		return s.drop(err)
	}
	return s.told(h, execproto.MethodFSWriteBlock, nil)
}

// told answers with the failed entries of an archive, or with the error. A file has no entries.
func (s *session) told(h *handle, operation string, err error) error {
	if err != nil {
		return s.fail(err)
	}
	return s.answer(operation, h.Told())
}

// drop answers with an error that also closes the handle.
func (s *session) drop(err error) error {
	if err := s.fail(err); err != nil {
		return err
	}
	return errEnded
}

// blockParams are the params of fs/readBlock or fs/writeBlock. They have no handle id, because
// there is only one handle.
type blockParams struct {
	offset, len uint64
	chunk       []byte // decoded in place
}

// decodeBlock decodes the offset and the member whose name is second: len or chunk. It ignores
// other members.
func decodeBlock(params []byte, second string) (p blockParams, err error) {
	r := jsonwire.NewCheckedReader(params)
	err = r.Struct("an object", jsonwire.FieldsFunc(func(c *jsonwire.Codec) {
		c.Uint64("offset", jsonwire.Need, &p.offset)
		if second == "len" {
			c.Uint64(second, jsonwire.Need, &p.len)
		} else {
			c.Encoded(second, jsonwire.Need, &p.chunk, b64.AppendString, b64.DecodeInPlace)
		}
	}))
	return p, err
}
