// Package contentcoding undoes the compression of HTTP responses (docs/spec/wire.md §6.1). A body is decoded while it is read,
// in bounded memory, however large it becomes.
package contentcoding

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"

	"github.com/klauspost/compress/zstd"
)

// Accepted are the encodings that Decode decodes, for the header Accept-Encoding of a request.
const Accepted = "zstd,gzip"

const (
	// maxWindow is the largest window of a zstd body, in bytes. A larger one is an error, because
	// the decoder holds the window in memory. RFC 9659 forbids larger ones in HTTP.
	maxWindow = 8 << 20
	// zstdMemory and gzipMemory are the most memory that a decoder allocates, in bytes: the
	// window, and the blocks before and after decoding. TestBombs measures up to 9.3 MiB and 44 KiB.
	zstdMemory = maxWindow + 2<<20
	gzipMemory = 64 << 10
)

// ErrBroken is the error of a body that is not what its content-encoding says. It has the text of
// Codex CLI.
var ErrBroken = errors.New("error decoding response body")

// Decode makes the body of a response decode itself, and removes the headers about its encoding. It returns the most
// memory that the decoder allocates, in bytes. It returns 0 if the body is handed over as it came,
// because it has no encoding, or one that is not among Accepted.
func Decode(res *http.Response) (memory int) {
	open, memory := decoder(res.Header)
	if open == nil {
		return 0
	}
	res.Body, res.ContentLength = &body{ReadCloser: res.Body, open: open}, -1
	res.Header.Del("Content-Encoding")
	res.Header.Del("Content-Length")
	return memory
}

// decoder returns the function that makes the decoder of a body with these headers, and the memory
// that the decoder needs. The function is nil if the body is to be handed over as it came.
func decoder(headers http.Header) (open func(io.Reader) (io.Reader, error), memory int) {
	values := headers.Values("Content-Encoding")
	if len(values) != 1 {
		return nil, 0
	}
	switch values[0] {
	case "gzip":
		return openGzip, gzipMemory
	case "zstd":
		return openZstd, zstdMemory
	default:
		return nil, 0
	}
}

// openGzip returns a decoder of the first member. What follows it is dropped, as by Codex CLI.
func openGzip(from io.Reader) (io.Reader, error) {
	z, err := gzip.NewReader(from)
	if err != nil {
		return nil, err
	}
	z.Multistream(false)
	return z, nil
}

// openZstd returns a decoder that needs neither a goroutine nor Close.
func openZstd(from io.Reader) (io.Reader, error) {
	return zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
}

// body decodes a body while it is read. It returns what the far side has flushed without
// waiting for more.
type body struct {
	io.ReadCloser // the body as it came
	open          func(io.Reader) (io.Reader, error)
	decoded       io.Reader // nil before the first Read
	failed        error     // of the body as it came
}

// Read implements io.Reader. Its error is ErrBroken, or that of the body as it came.
func (b *body) Read(p []byte) (n int, err error) {
	if b.decoded == nil {
		b.decoded, err = b.open(readerFunc(b.readRaw))
	}
	if err == nil {
		n, err = b.decoded.Read(p)
	}
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return n, err
	case b.failed != nil:
		return n, b.failed
	default:
		return n, ErrBroken
	}
}

// readRaw reads the body as it came, and remembers its failure.
func (b *body) readRaw(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.failed = err
	}
	return n, err
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
