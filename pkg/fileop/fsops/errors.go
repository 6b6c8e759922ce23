package fsops

import (
	"context"
	"errors"
	"math"
	"strconv"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/files"
	"codex.internal/pkg/wire/jsonrpc"
	"codex.internal/pkg/wire/pathuri"
)

// Invalid is the error of an invalid request, -32600.
func Invalid(text string) error {
	return &jsonrpc.Error{Code: execproto.CodeInvalidRequest, Message: text}
}

// The errors of CheckHandleID, CheckReadLength and CheckWriteLength
// (docs/spec/wire.md §5.4).
var (
	errHandleID    = Invalid("file read handle ID must not exceed " + strconv.Itoa(execproto.MaxHandleIDBytes) + " bytes")
	errReadLength  = Invalid("file read block length must be between 1 and " + strconv.Itoa(execproto.MaxBlockBytes))
	errWriteLength = Invalid("file write block length must be between 1 and " + strconv.Itoa(execproto.MaxBlockBytes))
)

// CheckHandleID returns an error for an id longer than MaxHandleIDBytes.
func CheckHandleID(id string) error {
	if len(id) > execproto.MaxHandleIDBytes {
		return errHandleID
	}
	return nil
}

// CheckReadLength checks the len of an fs/readBlock, in bytes.
func CheckReadLength(n uint64) error {
	if n < 1 || n > execproto.MaxBlockBytes {
		return errReadLength
	}
	return nil
}

// CheckWriteLength checks the length of the chunk of an fs/writeBlock, in bytes.
func CheckWriteLength(n int) error {
	if n < 1 || n > execproto.MaxBlockBytes {
		return errWriteLength
	}
	return nil
}

// CheckWriteRange returns files.ErrOffset if a block of an fs/writeBlock would
// end beyond the largest offset. It is called before the write, so that such a
// request does not close the handle.
func CheckWriteRange(offset uint64, n int) error {
	if offset > math.MaxInt64-uint64(n) {
		return files.ErrOffset
	}
	return nil
}

// Error converts an error of a file system request to one with a code (docs/spec/wire.md §5.2).
func Error(err error) *jsonrpc.Error {
	var rpc *jsonrpc.Error
	var syntax *pathuri.SyntaxError
	var host *pathuri.HostError
	switch {
	case errors.As(err, &rpc):
		return rpc
	case errors.As(err, &syntax):
		return &jsonrpc.Error{Code: execproto.CodeInvalidParams, Message: err.Error()}
	case errors.As(err, &host):
		return &jsonrpc.Error{Code: execproto.CodeInvalidRequest, Message: err.Error()}
	case errors.Is(err, context.Canceled):
		return &jsonrpc.Error{Code: execproto.CodeInternal, Message: "the request was cancelled because its connection ends"}
	}
	code := execproto.CodeInternal
	switch files.Classify(err) {
	case files.NotFound:
		code = execproto.CodeNotFound
	case files.Invalid:
		code = execproto.CodeInvalidRequest
	}
	return &jsonrpc.Error{Code: code, Message: err.Error()}
}
