//go:build linux

package codexfs

import (
	"errors"
	"fmt"
	"io"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/fileop/fsops"
	"codex.internal/pkg/host/files"
	"codex.internal/pkg/wire/jsonwire"
	"codex.internal/pkg/wire/pathuri"
)

// handle is the open file of a session: either read or write is set.
type handle struct {
	read  *files.ReadHandle
	write *files.WriteHandle
	block []byte // buffer of readBlock
}

// serveHandle answers fs/open and then the requests about the handle, until the
// handle is closed, an error of the system, or the end of the input. If an atomic
// write was not closed, its target is unchanged.
func (s *session) serveHandle(params []byte) error {
	h, err := s.open(params)
	if h == nil || err != nil {
		return err
	}
	defer h.abandon()
	for {
		operation, params, err := s.request()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch operation {
		case execproto.MethodFSReadBlock:
			err = s.readBlock(h, params)
		case execproto.MethodFSWriteBlock:
			err = s.writeBlock(h, params)
		case execproto.MethodFSClose:
			return s.finish(operation, h.close())
		default:
			err = unknownOperation(operation)
		}
		if err == errEnded {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// errEnded means that an error of the system, which has been the answer, closed
// the handle.
var errEnded = errors.New("ended")

// open answers fs/open; the handle is nil when the answer is an error.
func (s *session) open(params []byte) (*handle, error) {
	p, err := execproto.DecodeOpen(params)
	if err != nil {
		return nil, err
	}
	if p.Sandbox != nil {
		return nil, errSandbox
	}
	h, err := openHandle(&p)
	if err != nil {
		return nil, s.fail(err)
	}
	if err := s.answer(execproto.MethodFSOpen, execproto.OpenResult{HandleID: p.HandleID}, nil); err != nil {
		h.abandon()
		return nil, err
	}
	return h, nil
}

func openHandle(p *execproto.OpenParams) (*handle, error) {
	if err := fsops.CheckHandleID(p.HandleID); err != nil {
		return nil, err
	}
	path, err := pathuri.Parse(p.Path, "")
	if err != nil {
		return nil, err
	}
	h := &handle{}
	if p.Mode == execproto.OpenReplace {
		h.write, err = files.OpenWrite(path, files.WriteOptions{Options: files.Options{Confined: true}, Atomic: p.Atomic})
	} else {
		h.read, err = files.OpenRead(path)
	}
	return h, err
}

func (h *handle) close() error {
	if h.write != nil {
		return h.write.Close()
	}
	return h.read.Close()
}

// abandon ends a handle without completing an atomic write. After close it does
// nothing.
func (h *handle) abandon() {
	if h.write != nil {
		_ = h.write.Abort()
	} else {
		_ = h.read.Close()
	}
}

func (s *session) readBlock(h *handle, params []byte) error {
	p, err := decodeBlock(params, "len")
	if err != nil {
		return err
	}
	if h.read == nil {
		return s.fail(fsops.Invalid("the file handle is open for writing"))
	}
	if err := fsops.CheckReadLength(p.len); err != nil {
		return s.fail(err)
	}
	if uint64(cap(h.block)) < p.len {
		h.block = make([]byte, p.len)
	}
	n, eof, err := h.read.ReadAt(h.block[:p.len], p.offset)
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
	if h.write == nil {
		return s.fail(fsops.Invalid("the file handle is open for reading"))
	}
	if err := fsops.CheckWriteLength(len(p.chunk)); err != nil {
		return s.fail(err)
	}
	if err := h.write.WriteAt(p.chunk, p.offset); err != nil {
		return s.drop(err)
	}
	return s.finish(execproto.MethodFSWriteBlock, nil)
}

// drop answers with an error that closes the handle.
func (s *session) drop(err error) error {
	if err := s.fail(err); err != nil {
		return err
	}
	return errEnded
}

// blockParams are the params of fs/readBlock or fs/writeBlock. There is only one
// handle, so they need no id.
type blockParams struct {
	offset, len uint64
	chunk       []byte // decoded in place
}

// decodeBlock decodes the offset and the member named second, which is len or
// chunk. Others are ignored.
func decodeBlock(params []byte, second string) (p blockParams, err error) {
	var offset, other bool
	r := jsonwire.NewCheckedReader(params)
	err = r.Object("an object", func(name []byte) (err error) {
		switch string(name) {
		case "offset":
			offset = true
			p.offset, err = r.Uint64()
		case second:
			other = true
			if second == "len" {
				p.len, err = r.Uint64()
				return err
			}
			var text []byte
			if text, err = r.StringBytes(); err == nil {
				p.chunk, err = jsonwire.DecodeBase64InPlace(text)
			}
		default:
			err = r.Skip()
		}
		return err
	})
	switch {
	case err != nil:
	case !offset:
		err = errors.New("missing field `offset`")
	case !other:
		err = fmt.Errorf("missing field `%s`", second)
	}
	return p, err
}
