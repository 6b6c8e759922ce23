package execproto

import (
	"errors"
	"fmt"

	"codex.internal/pkg/wire/jsonwire"
)

// The functions below are Decode for one type each.

// DecodeInitialize decodes the params of initialize.
func DecodeInitialize(src []byte) (InitializeParams, error) { return Decode[InitializeParams](src) }

// DecodeConfigRead decodes the params of environmentConfig/read.
func DecodeConfigRead(src []byte) (ConfigReadParams, error) { return Decode[ConfigReadParams](src) }

// DecodeWatchMissing decodes the params of fs/watchMissing.
func DecodeWatchMissing(src []byte) (WatchMissingParams, error) {
	return Decode[WatchMissingParams](src)
}

// DecodeStart decodes the params of process/start.
func DecodeStart(src []byte) (StartParams, error) { return Decode[StartParams](src) }

// DecodeRead decodes the params of process/read.
func DecodeRead(src []byte) (ReadParams, error) { return Decode[ReadParams](src) }

// DecodeWrite decodes the params of process/write.
func DecodeWrite(src []byte) (WriteParams, error) { return Decode[WriteParams](src) }

// DecodeProcessAck decodes the params of process/ack.
func DecodeProcessAck(src []byte) (ProcessAck, error) { return Decode[ProcessAck](src) }

// DecodeSignal decodes the params of process/signal.
func DecodeSignal(src []byte) (SignalParams, error) { return Decode[SignalParams](src) }

// DecodeProcess decodes the params of process/terminate and
// process/closeStdin.
func DecodeProcess(src []byte) (ProcessParams, error) { return Decode[ProcessParams](src) }

// DecodeResize decodes the params of process/resize.
func DecodeResize(src []byte) (ResizeParams, error) { return Decode[ResizeParams](src) }

// DecodePath decodes the params of fs/canonicalize and fs/readDirectory.
func DecodePath(src []byte) (PathParams, error) { return Decode[PathParams](src) }

// DecodeLinkPath decodes the params of fs/readFile and fs/getMetadata.
func DecodeLinkPath(src []byte) (LinkPathParams, error) { return Decode[LinkPathParams](src) }

// DecodeOpen decodes the params of fs/open.
func DecodeOpen(src []byte) (OpenParams, error) { return Decode[OpenParams](src) }

// DecodeReadBlock decodes the params of fs/readBlock.
func DecodeReadBlock(src []byte) (ReadBlockParams, error) { return Decode[ReadBlockParams](src) }

// DecodeWriteBlock decodes the params of fs/writeBlock.
func DecodeWriteBlock(src []byte) (WriteBlockParams, error) { return Decode[WriteBlockParams](src) }

// DecodeHandle decodes the params of fs/close.
func DecodeHandle(src []byte) (HandleParams, error) { return Decode[HandleParams](src) }

// DecodeWriteFile decodes the params of fs/writeFile. DataBase64 aliases src.
func DecodeWriteFile(src []byte) (WriteFileParams, error) { return Decode[WriteFileParams](src) }

// DecodeCreateDirectory decodes the params of fs/createDirectory.
func DecodeCreateDirectory(src []byte) (CreateDirectoryParams, error) {
	return Decode[CreateDirectoryParams](src)
}

// DecodeRemove decodes the params of fs/remove.
func DecodeRemove(src []byte) (RemoveParams, error) { return Decode[RemoveParams](src) }

// DecodeCopy decodes the params of fs/copy.
func DecodeCopy(src []byte) (CopyParams, error) { return Decode[CopyParams](src) }

// DecodeWalk decodes the params of fs/walk.
func DecodeWalk(src []byte) (WalkParams, error) { return Decode[WalkParams](src) }

// DecodeHTTPRequest decodes the params of http/request.
func DecodeHTTPRequest(src []byte) (HTTPRequestParams, error) { return Decode[HTTPRequestParams](src) }

// DecodeHTTPAck decodes the params of http/request/ack.
func DecodeHTTPAck(src []byte) (HTTPAck, error) { return Decode[HTTPAck](src) }

// DecodeOutputNotification decodes the params of process/output.
func DecodeOutputNotification(src []byte) (OutputNotification, error) {
	return Decode[OutputNotification](src)
}

// DecodeExitedNotification decodes the params of process/exited.
func DecodeExitedNotification(src []byte) (ExitedNotification, error) {
	return Decode[ExitedNotification](src)
}

// DecodeClosedNotification decodes the params of process/closed.
func DecodeClosedNotification(src []byte) (ClosedNotification, error) {
	return Decode[ClosedNotification](src)
}

// DecodeBodyDelta decodes the params of http/request/bodyDelta.
func DecodeBodyDelta(src []byte) (HTTPBodyDelta, error) { return Decode[HTTPBodyDelta](src) }

// DecodeReadFileResult decodes the result of fs/readFile.
func DecodeReadFileResult(src []byte) (ReadFileResult, error) { return Decode[ReadFileResult](src) }

// DecodeReadBlockResult decodes the result of fs/readBlock.
func DecodeReadBlockResult(src []byte) (ReadBlockResult, error) { return Decode[ReadBlockResult](src) }

// Empty is the result of the requests that return nothing: {}.
type Empty struct{}

func (*Empty) fields(*codec) {}

// AppendJSON appends {}.
func (Empty) AppendJSON(b []byte) []byte { return append(b, "{}"...) }

// DecodeEmpty checks the params of a method that has none: absent, null
// or {}.
func DecodeEmpty(src []byte) error {
	if src == nil {
		return nil
	}
	r := jsonwire.NewReader(src)
	if null, err := r.Null(); null || err != nil {
		return errors.Join(err, r.End())
	}
	err := r.Object("unit", func(name []byte) error {
		return fmt.Errorf("unexpected field `%s`: the method takes no params", name)
	})
	if err != nil {
		return err
	}
	return r.End()
}
