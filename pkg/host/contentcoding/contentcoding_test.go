package contentcoding

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// zeros is an endless source of a byte that compresses as well as it can.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// compressed returns n zero bytes in an encoding.
func compressed(t *testing.T, n int64, open func(io.Writer) (io.WriteCloser, error)) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := open(&b)
	if err == nil {
		_, err = io.CopyN(w, zeros{}, n)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// announced returns the head of a zstd frame of one segment with a size, and a first block of zeros.
func announced(size uint64) []byte {
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0b1110_0000} // the magic number; one segment, a size of 8 bytes
	frame = binary.LittleEndian.AppendUint64(frame, size)
	const block = 128 << 10 // the largest
	header := uint32(block<<3 | 1<<1)
	return append(frame, byte(header), byte(header>>8), byte(header>>16), 0)
}

// TestBombs decodes small bodies that become large. The decoders allocate no more than the memory that Decode returns, whatever
// the size, and return each piece when it is decoded.
func TestBombs(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	const size = 256 << 20
	zipper := func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriterLevel(w, gzip.BestCompression) }
	zst := func(window int) func(w io.Writer) (io.WriteCloser, error) {
		return func(w io.Writer) (io.WriteCloser, error) {
			return zstd.NewWriter(w, zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
		}
	}
	mixed := rand.NewChaCha8([32]byte{})
	for _, tt := range []struct {
		name, encoding string
		body           []byte
		want           int64
		err            error
	}{
		{"gzip", "gzip", compressed(t, size, zipper), size, nil},
		{"zstd", "zstd", compressed(t, size, zst(1<<20)), size, nil},
		{"zstd with the largest window", "zstd", compressed(t, size, zst(maxWindow)), size, nil},
		{"zstd with a larger window", "zstd", compressed(t, size, zst(2*maxWindow)), 0, ErrBroken},
		{"zstd that announces a terabyte", "zstd", announced(1 << 40), 0, ErrBroken},
		{"zstd that announces the largest size", "zstd", announced(1<<64 - 1), 0, ErrBroken},
		{"zstd that compresses badly", "zstd", compressed(t, 0, func(w io.Writer) (io.WriteCloser, error) {
			z, err := zst(maxWindow)(w)
			for range 12 << 20 / 1000 { // more than the window
				if err == nil {
					_, err = io.CopyN(z, mixed, 300)
				}
				if err == nil {
					_, err = z.Write(bytes.Repeat([]byte("a word, "), 700/8))
				}
			}
			return z, err
		}), -1, nil},
		{"gzip of gzip", "gzip", compressed(t, 64<<20, func(w io.Writer) (io.WriteCloser, error) {
			outer := gzip.NewWriter(w)
			inner := gzip.NewWriter(outer)
			return both{inner, outer}, nil
		}), -1, nil},
	} {
		if tt.want == size && len(tt.body) > size/500 {
			t.Fatalf("%s: the body has %d bytes, so it is no bomb", tt.name, len(tt.body))
		}
		res := &http.Response{
			Header: http.Header{"Content-Encoding": {tt.encoding}}, Body: io.NopCloser(bytes.NewReader(tt.body)), ContentLength: int64(len(tt.body)),
		}
		memory := Decode(res)
		if memory == 0 || res.ContentLength != -1 || len(res.Header) != 0 {
			t.Errorf("%s: got memory %d, length %d and headers %v; want some memory, -1 and no headers", tt.name, memory, res.ContentLength, res.Header)
		}
		piece := make([]byte, 32<<10)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var got int64
		var err error
		for err == nil {
			var n int
			n, err = res.Body.Read(piece)
			got += int64(n)
		}
		runtime.ReadMemStats(&after)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if got != tt.want && tt.want >= 0 || !errors.Is(err, tt.err) {
			t.Errorf("%s: got %d bytes and error %v, want %d and %v", tt.name, got, err, tt.want, tt.err)
		}
		// All that was allocated, also what was freed since, is more than what was held at a time.
		allocated := after.TotalAlloc - before.TotalAlloc
		t.Logf("%s: %d bytes become %d; %d bytes were allocated of %d", tt.name, len(tt.body), got, allocated, memory)
		if allocated > uint64(memory) {
			t.Errorf("%s: got %d bytes allocated, want at most %d", tt.name, allocated, memory)
		}
	}
}

// both closes a writer, and then the one below it.
type both struct {
	io.WriteCloser
	below io.Closer
}

func (b both) Close() error { return errors.Join(b.WriteCloser.Close(), b.below.Close()) }
