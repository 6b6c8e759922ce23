package execproto

import "codex.internal/pkg/wire/jsonwire"

// The methods below append a whole notification: the envelope and its params.

// AppendOutput appends process/output. It is the server's hot path: it does not
// allocate if b has room, and writes the base64 text directly into b.
func AppendOutput(b []byte, processID string, seq uint64, stream Stream, chunk []byte) []byte {
	b = append(b, `{"method":"process/output","params":{"processId":`...)
	b = jsonwire.AppendString(b, processID)
	b = append(b, `,"seq":`...)
	b = jsonwire.AppendUint(b, seq)
	b = append(b, `,"stream":"`...)
	b = append(b, stream...)
	b = append(b, `","chunk":`...)
	b = jsonwire.AppendBase64String(b, chunk)
	return append(b, "}}"...)
}

// AppendJSON appends the notification.
func (n OutputNotification) AppendJSON(b []byte) []byte {
	return AppendOutput(b, n.ProcessID, n.Seq, n.Stream, n.Chunk)
}

// AppendJSON appends the notification.
func (n ExitedNotification) AppendJSON(b []byte) []byte {
	b = append(b, `{"method":"process/exited","params":{"processId":`...)
	b = jsonwire.AppendString(b, n.ProcessID)
	b = append(b, `,"seq":`...)
	b = jsonwire.AppendUint(b, n.Seq)
	b = append(b, `,"exitCode":`...)
	b = jsonwire.AppendInt(b, int64(n.ExitCode))
	b = append(b, `,"sandboxDenied":`...)
	b = jsonwire.AppendBool(b, n.SandboxDenied)
	if r := n.SandboxRefusal; r != nil {
		b = append(b, `,"sandboxRefusal":{"policy":`...)
		b = append(b, r.Policy...)
		b = append(b, `,"reason":`...)
		b = jsonwire.AppendString(b, r.Reason)
		b = append(b, '}')
	}
	return append(b, "}}"...)
}

// AppendJSON appends the notification.
func (n ClosedNotification) AppendJSON(b []byte) []byte {
	b = append(b, `{"method":"process/closed","params":{"processId":`...)
	b = jsonwire.AppendString(b, n.ProcessID)
	b = append(b, `,"seq":`...)
	b = jsonwire.AppendUint(b, n.Seq)
	return append(b, "}}"...)
}

// AppendJSON appends the notification.
func (n HTTPBodyDelta) AppendJSON(b []byte) []byte {
	b = append(b, `{"method":"http/request/bodyDelta","params":{"requestId":`...)
	b = jsonwire.AppendString(b, n.RequestID)
	b = append(b, `,"seq":`...)
	b = jsonwire.AppendUint(b, n.Seq)
	b = append(b, `,"deltaBase64":`...)
	b = jsonwire.AppendBase64String(b, n.Delta)
	b = append(b, `,"done":`...)
	b = jsonwire.AppendBool(b, n.Done)
	b = append(b, `,"error":`...)
	b = appendOptional(b, n.Error)
	return append(b, "}}"...)
}
