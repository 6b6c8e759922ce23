package execproto

import (
	"codex.internal/pkg/wire/b64"
	"codex.internal/pkg/wire/jsonwire"
)

// Notification is an Object that is the params of a notification.
type Notification interface {
	Object
	// Notification returns the name of the notification.
	Notification() string
}

func (*OutputNotification) Notification() string         { return NotifyProcessOutput }
func (*ExitedNotification) Notification() string         { return NotifyProcessExited }
func (*ClosedNotification) Notification() string         { return NotifyProcessClosed }
func (*MissingChanged) Notification() string             { return NotifyMissingChanged }
func (*Changed) Notification() string                    { return NotifyFSChanged }
func (*HTTPBodyDelta) Notification() string              { return NotifyHTTPBodyDelta }
func (*PolicyDecisionNotification) Notification() string { return NotifyPolicyDecision }
func (*Ports) Notification() string                      { return NotifyTunnelPorts }
func (*TunnelData) Notification() string                 { return NotifyTunnelData }
func (*TunnelAck) Notification() string                  { return NotifyTunnelAck }
func (*TunnelClose) Notification() string                { return NotifyTunnelClose }
func (*TunnelAccepted) Notification() string             { return NotifyTunnelAccepted }

// Notify returns the function that appends a notification, its envelope and its params,
// to a buffer.
func Notify(n Notification) func(b []byte) []byte {
	return func(b []byte) []byte {
		b = append(b, `{"method":"`...)
		b = append(b, n.Notification()...)
		b = append(b, `","params":`...)
		return append(appendObject(b, n), '}')
	}
}

// AppendOutput appends process/output, without allocating if b has enough capacity. It is
// written by hand because it is most of what a server sends: an event of 100 bytes takes 217 ns
// of processor time here, and 265 ns if Append encodes it.
func AppendOutput(b []byte, processID string, seq uint64, stream Stream, chunk []byte) []byte {
	b = append(b, `{"method":"`+NotifyProcessOutput+`","params":{"processId":`...)
	b = jsonwire.AppendString(b, processID)
	b = append(b, `,"seq":`...)
	b = jsonwire.AppendUint(b, seq)
	b = append(b, `,"stream":"`...)
	b = append(b, stream...)
	b = append(b, `","chunk":`...)
	b = b64.AppendString(b, chunk)
	return append(b, "}}"...)
}
