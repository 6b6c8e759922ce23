package noise

//lint:file-ignore ST1005 Codex CLI's words

import (
	"errors"
	"fmt"
)

// Callers may test for these errors with errors.Is. Each is fatal for the
// stream on which it happens. Their texts must not be sent to the peer: to the
// peer, all failures must look alike.
var (
	// ErrPublicKey means that a public key document is malformed.
	ErrPublicKey = errors.New("invalid Noise channel public key")
	// ErrHandshake means that a handshake failed: the message was altered or meant
	// for another peer, or the keys in it are unusable.
	ErrHandshake = errors.New("Noise channel handshake failed")
	// ErrTransport means that a record could not be opened or sealed.
	ErrTransport = errors.New("Noise channel transport failed")
	// ErrInvalidMessage means that a message or record has an invalid length.
	ErrInvalidMessage = errors.New("invalid Noise channel message")
	// ErrFraming means that the plaintext is not a sequence of messages.
	ErrFraming = errors.New("Noise relay framing failed")
)

// causedError is an error with its cause, which it wraps. fmt.Errorf would format each text when
// the program starts.
type causedError struct {
	kind error
	text string
}

func (e *causedError) Error() string { return e.kind.Error() + ": " + e.text }
func (e *causedError) Unwrap() error { return e.kind }

var (
	errShort   error = &causedError{ErrHandshake, "Received invalid message"}
	errDecrypt       = errors.New("Cipher error: Decrypt error")
	errSpent   error = &causedError{ErrHandshake, "the handshake is over"}

	errRequestLarge    error = &causedError{ErrInvalidMessage, "handshake request is too large"}
	errResponseLarge   error = &causedError{ErrInvalidMessage, "handshake response is too large"}
	errPayloadLarge    error = &causedError{ErrInvalidMessage, "handshake payload is too large"}
	errPayloadNotEmpty error = &causedError{ErrInvalidMessage, "handshake response payload must be empty"}

	errPlaintextLarge  error = &causedError{ErrInvalidMessage, "transport plaintext is too large"}
	errCiphertextShort error = &causedError{ErrInvalidMessage, "transport ciphertext is too short"}
	errCiphertextLarge error = &causedError{ErrInvalidMessage, "transport ciphertext is too large"}

	errRecordLarge     error = framingError("Noise relay plaintext record exceeds maximum length")
	errMessageLarge    error = framingError("Noise relay JSON-RPC message exceeds maximum length")
	errInvalidLength   error = framingError("Noise relay JSON-RPC message has invalid length")
	errReassemblyLarge error = framingError("Noise relay JSON-RPC reassembly buffer exceeds maximum length")
)

// framingError is an ErrFraming with its own text.
type framingError string

func (e framingError) Error() string        { return string(e) }
func (e framingError) Is(target error) bool { return target == ErrFraming }

func handshakeFailed(err error) error { return fmt.Errorf("%w: %w", ErrHandshake, err) }
