package files

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"io"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/fileop/fshelper"
)

// helperFile is the file of fs/readFile, which it decodes from the answer of a helper while the
// helper sends it. Scenario: the answer for a file of 100 MB was held whole, as text. It did not
// fit into the share of a client with a token.
type helperFile struct {
	h       *helper
	text    *bufio.Reader // the rest of the answer
	decoder io.Reader
}

// The text of an answer of fs/readFile before and after the base64 text of the file.
var fileHead = append(fshelper.AppendOK(nil, execproto.MethodFSReadFile), `{"dataBase64":"`...)

const fileTail = `"}` + fshelper.OKSuffix + "\n"

// readFile sends a request of fs/readFile and returns the file. The file ends the helper when it
// is closed. readFile returns the errors of ask.
func (h *helper) readFile(request ...[]byte) (*helperFile, error) {
	if err := h.send(request...); err != nil {
		return nil, err
	}
	for len(h.answer) < len(fileHead) && !bytes.HasSuffix(h.answer, []byte("\n")) {
		if h.read() != nil {
			break // receive returns the error
		}
	}
	if !bytes.HasPrefix(h.answer, fileHead) {
		_, err := h.receive(execproto.MethodFSReadFile)
		if err == nil {
			err = execproto.Internal("unexpected fs sandbox helper response: it has no file")
		}
		return nil, err
	}
	f := &helperFile{h: h, text: bufio.NewReaderSize(io.MultiReader(bytes.NewReader(h.answer[len(fileHead):]), h.child.Stdout), pipeRoom)}
	f.decoder = base64.NewDecoder(base64.StdEncoding, untilQuote{f.text})
	return f, nil
}

// Read implements io.Reader.
func (f *helperFile) Read(b []byte) (int, error) {
	n, err := f.decoder.Read(b)
	if err == io.EOF {
		var tail [len(fileTail)]byte
		if _, err = io.ReadFull(f.text, tail[:]); err == nil && string(tail[:]) == fileTail {
			return n, io.EOF
		}
		if err == nil {
			err = errors.New("the file is not the end of the answer")
		}
	}
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return n, f.h.failed(err)
	default:
		f.h.child.Kill()
		return n, execproto.Internal("failed to encode or decode fs sandbox helper message: " + err.Error())
	}
}

// Close implements io.Closer. It does not wait for the end of the helper, which has nothing to
// clean up.
func (f *helperFile) Close() error {
	f.h.srv.wg.Go(func() { _ = f.h.end() })
	return nil
}

// untilQuote reads text until a quote, which it does not consume.
type untilQuote struct{ r *bufio.Reader }

// Read implements io.Reader.
func (u untilQuote) Read(b []byte) (int, error) {
	if _, err := u.r.Peek(1); err != nil {
		return 0, io.ErrUnexpectedEOF
	}
	text, _ := u.r.Peek(min(u.r.Buffered(), len(b)))
	n := bytes.IndexByte(text, '"')
	if n == 0 {
		return 0, io.EOF
	}
	if n < 0 {
		n = len(text)
	}
	n = copy(b, text[:n])
	_, _ = u.r.Discard(n)
	return n, nil
}
