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
	b = append(b, `{"method":"process/exited","params":`...)
	return append(appendObject(b, &n), '}')
}

// AppendJSON appends the notification.
func (n ClosedNotification) AppendJSON(b []byte) []byte {
	b = append(b, `{"method":"process/closed","params":`...)
	return append(appendObject(b, &n), '}')
}

// AppendJSON appends the notification.
func (n MissingChanged) AppendJSON(b []byte) []byte {
	b = append(b, `{"method":"fs/missingChanged","params":`...)
	return append(appendObject(b, &n), '}')
}

// AppendJSON appends the notification.
func (n HTTPBodyDelta) AppendJSON(b []byte) []byte {
	b = append(b, `{"method":"http/request/bodyDelta","params":`...)
	return append(appendObject(b, &n), '}')
}
