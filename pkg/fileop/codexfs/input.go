package codexfs

import (
	"bytes"
	"errors"
	"io"
	"strconv"

	"codex.internal/pkg/fileop/fshelper"
)

// input splits a stream into JSON documents. A document ends at a newline after
// it, or at the end of the input.
type input struct {
	r     io.Reader
	limit int // the longest document, in bytes
	buf   []byte
	start int // the first byte that next has not returned
}

func newInput(r io.Reader) *input { return &input{r: r, limit: fshelper.MaxRequest} }

// next returns the next document, or io.EOF at the end. It is valid until
// the next call. It may be malformed JSON.
func (in *input) next() ([]byte, error) {
	var s scanner
	seen := in.start
	for {
		if n := s.scan(in.buf[seen:]); n >= 0 {
			doc := in.buf[in.start : seen+n]
			in.start = seen + n + 1
			return doc, nil
		}
		seen = len(in.buf)
		if seen-in.start > in.limit {
			return nil, errors.New("the request is longer than " + strconv.Itoa(in.limit) + " bytes")
		}
		seen -= in.room()
		n, err := in.r.Read(in.buf[len(in.buf):cap(in.buf)])
		in.buf = in.buf[:len(in.buf)+n]
		if err == io.EOF && n == 0 {
			doc := in.buf[in.start:]
			in.start = len(in.buf)
			if s.state == blank {
				return nil, io.EOF
			}
			return doc, nil
		}
		if err != nil && err != io.EOF {
			return nil, err
		}
	}
}

// room makes space in the buffer. It returns how many bytes the contents have moved towards the
// front.
func (in *input) room() (moved int) {
	if in.start == len(in.buf) {
		moved, in.start, in.buf = in.start, 0, in.buf[:0]
	}
	if len(in.buf) < cap(in.buf) {
		return moved
	}
	moved += in.start
	rest := in.buf[in.start:]
	if size := cap(in.buf); in.start <= size/2 {
		in.buf = make([]byte, 0, max(firstBuffer, min(growBuffer*size, in.limit+firstBuffer)))
	}
	in.buf = in.buf[:copy(in.buf[:cap(in.buf)], rest)]
	in.start = 0
	return moved
}

// scanner finds the end of a JSON document. It only tracks strings and brackets.
type scanner struct {
	state scanState
	depth int
}

type scanState uint8

const (
	blank    scanState = iota // only white space so far
	between                   // outside of strings
	inString                  // in a string
	inEscape                  // after a backslash in a string
)

// scan scans more of the document. It returns the position of the newline that
// ends it, or -1.
func (s *scanner) scan(b []byte) int {
	for i := 0; i < len(b); i++ {
		switch s.state {
		case inEscape:
			s.state = inString
		case inString:
			n := bytes.IndexByte(b[i:], '"')
			if n < 0 {
				n = len(b) - i
			}
			if e := bytes.IndexByte(b[i:i+n], '\\'); e >= 0 {
				i += e
				s.state = inEscape
				continue
			}
			i += n
			if i < len(b) {
				s.state = between
			}
		default:
			switch b[i] {
			case '"':
				s.state = inString
			case '{', '[':
				s.state = between
				s.depth++
			case '}', ']':
				s.state = between
				s.depth--
			case '\n':
				if s.state == between && s.depth <= 0 {
					return i
				}
			case ' ', '\t', '\r':
			default:
				s.state = between
			}
		}
	}
	return -1
}
