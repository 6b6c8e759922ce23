package launcher

import (
	"codex.internal/cmd/codex-linux-sandbox/mediate"
	"codex.internal/pkg/sandbox/proxybridge"
	"golang.org/x/sys/unix"
)

// The two stages of the launcher communicate over a packet socket. The second stage sends a byte 1 when it is ready, and
// the first stage answers with a byte 1 if the second may run the command. If the second stage does not run the command, it
// sends stageFailed and a text with the reason.
//
// The second stage does not have the descriptor on which the server reads why nothing ran. bwrap, the first process inside,
// would have that descriptor as well, and the command could open it again through /proc. A socket cannot be opened again.

// stageFailed is the first byte of the message of a second stage that does not run the command.
const stageFailed = 2

// maxFailure bounds the text of that message, in bytes.
const maxFailure = mediate.MaxMessage - 1

// hello waits for the second stage and returns its process id in this PID namespace. It returns 0
// if no second stage starts, or if its first message is a failure. With a proxy, the message also
// contains the listeners.
func (w *wrapped) hello() int {
	oob := make([]byte, unix.CmsgSpace(unix.SizeofUcred)+unix.CmsgSpace(4*proxybridge.MaxRoutes))
	text := make([]byte, 1+maxFailure)
	n, size, _, _, err := unix.Recvmsg(w.talk[0], text, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		return 0
	}
	if w.failed = failureIn(text[:n]); w.failed != "" {
		return 0
	}
	if w.l.proxies != nil {
		w.l.proxies.adopt(mediate.Descriptors(oob[:size]))
	}
	pid := 0
	messages, _ := unix.ParseSocketControlMessage(oob[:size])
	for i := range messages {
		if cred, err := unix.ParseUnixCredentials(&messages[i]); err == nil {
			pid = int(cred.Pid)
		}
	}
	return pid
}

// failureIn returns the failure text in a message of the second stage. It returns "" if the message is not a failure.
func failureIn(message []byte) string {
	if len(message) < 2 || message[0] != stageFailed {
		return ""
	}
	return string(message[1:])
}

// tellFirstStage sends an error of the second stage to the first, and reports whether that
// succeeded.
func tellFirstStage(err error) bool {
	var st unix.Stat_t
	if unix.Fstat(talkFD, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return false
	}
	text := err.Error()
	// The filter may be installed already. It permits write, but not send.
	_, err = unix.Write(talkFD, append([]byte{stageFailed}, text[:min(len(text), maxFailure)]...))
	return err == nil
}
