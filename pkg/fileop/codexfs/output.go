package codexfs

import (
	"io"

	"codex.internal/pkg/fileop/fshelper"
	"codex.internal/pkg/wire/b64"
	"golang.org/x/sys/unix"
)

// output writes one answer, in as few writes as its size permits.
type output struct {
	w   io.Writer
	buf []byte
	err error // error of the first write that failed
}

// begin starts the answer to an operation. size is the approximate size of the response in
// bytes.
func (o *output) begin(operation string, size int) {
	if o.buf == nil {
		o.buf = make([]byte, 0, min(size, b64.Len(encodeChunk))+1<<10)
	}
	if d, ok := o.w.(descriptor); ok && size > largeAnswer {
		// This fails if stdout is not a pipe, and may fail for other reasons.
		_, _ = unix.FcntlInt(uintptr(d), unix.F_SETPIPE_SZ, pipeSize)
	}
	o.buf = fshelper.AppendOK(o.buf[:0], operation)
}

func (o *output) text(s string) { o.buf = append(o.buf, s...) }

// base64 adds the base64 text of data. Between two calls the length of the
// data must be a multiple of three.
func (o *output) base64(data []byte) {
	for len(data) > 0 && o.err == nil {
		piece := data[:min(len(data), encodeChunk)]
		data = data[len(piece):]
		if len(o.buf)+b64.Len(len(piece)) > cap(o.buf) && len(o.buf) > 0 {
			o.flush()
		}
		o.buf = b64.Append(o.buf, piece)
	}
}

// end completes the answer and returns the first error of its writes.
func (o *output) end() error {
	o.text(fshelper.OKSuffix + "\n")
	o.flush()
	return o.err
}

func (o *output) flush() {
	if o.err == nil {
		_, o.err = o.w.Write(o.buf)
	}
	o.buf = o.buf[:0]
}
