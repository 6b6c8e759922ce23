package fetch

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"

	"github.com/klauspost/compress/zstd"
)

// accepted are the encodings of bodies that Do decodes, as a request names them.
const accepted = "zstd,gzip"

const (
	// maxWindow is the largest window of a zstd body, in bytes. A larger one is an error, because
	// the decoder holds the window in memory. RFC 9659 forbids larger ones in HTTP.
	maxWindow = 8 << 20
	// zstdMemory and gzipMemory are about the most memory that a decoder holds, in bytes: the
	// window, and the blocks before and after decoding.
	zstdMemory = maxWindow + 1<<20
	gzipMemory = 64 << 10
)

// errDecode is the error of a body that is not what its content-encoding says. It has the text of
// Codex CLI.
var errDecode = errors.New("error decoding response body")

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

// decodedBody decodes a body while it is read. It returns what the far side has flushed without
// waiting for more.
type decodedBody struct {
	io.ReadCloser // the body as it came
	open          func(io.Reader) (io.Reader, error)
	decoded       io.Reader // nil before the first Read
	failed        error     // of the body as it came
}

// Read implements io.Reader. Its error is errDecode, or that of the body as it came.
func (b *decodedBody) Read(p []byte) (n int, err error) {
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
		return n, errDecode
	}
}

// readRaw reads the body as it came, and remembers its failure.
func (b *decodedBody) readRaw(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.failed = err
	}
	return n, err
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
