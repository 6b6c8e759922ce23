package noise

//lint:file-ignore ST1005 Codex CLI's words

import (
	"errors"
	"fmt"
)

// The errors that a caller may look for with errors.Is. Each is fatal for the
// stream it happens on, and none of their texts may be told to the peer: to
// anybody outside, all failures look alike.
var (
	// ErrPublicKey says that a key document is none.
	ErrPublicKey = errors.New("invalid Noise channel public key")
	// ErrHandshake says that a handshake failed: the message was altered or
	// meant for somebody else, or the keys in it are unusable.
	ErrHandshake = errors.New("Noise channel handshake failed")
	// ErrTransport says that a record could not be opened or sealed.
	ErrTransport = errors.New("Noise channel transport failed")
	// ErrInvalidMessage says that a message or record has a length that none
	// has.
	ErrInvalidMessage = errors.New("invalid Noise channel message")
	// ErrFraming says that the plaintext is not a sequence of messages.
	ErrFraming = errors.New("Noise relay framing failed")
)

var (
	errShort   = fmt.Errorf("%w: Received invalid message", ErrHandshake)
	errDecrypt = errors.New("Cipher error: Decrypt error")
	errSpent   = fmt.Errorf("%w: the handshake is over", ErrHandshake)

	errRequestLarge    = fmt.Errorf("%w: handshake request is too large", ErrInvalidMessage)
	errResponseLarge   = fmt.Errorf("%w: handshake response is too large", ErrInvalidMessage)
	errPayloadLarge    = fmt.Errorf("%w: handshake payload is too large", ErrInvalidMessage)
	errPayloadNotEmpty = fmt.Errorf("%w: handshake response payload must be empty", ErrInvalidMessage)

	errPlaintextLarge  = fmt.Errorf("%w: transport plaintext is too large", ErrInvalidMessage)
	errCiphertextShort = fmt.Errorf("%w: transport ciphertext is too short", ErrInvalidMessage)
	errCiphertextLarge = fmt.Errorf("%w: transport ciphertext is too large", ErrInvalidMessage)

	errRecordLarge     error = framingError("Noise relay plaintext record exceeds maximum length")
	errMessageLarge    error = framingError("Noise relay JSON-RPC message exceeds maximum length")
	errInvalidLength   error = framingError("Noise relay JSON-RPC message has invalid length")
	errReassemblyLarge error = framingError("Noise relay JSON-RPC reassembly buffer exceeds maximum length")
)

// framingError is an ErrFraming with a text of its own.
type framingError string

func (e framingError) Error() string        { return string(e) }
func (e framingError) Is(target error) bool { return target == ErrFraming }

func handshakeFailed(err error) error { return fmt.Errorf("%w: %w", ErrHandshake, err) }
