package execclient

import (
	"errors"
	"fmt"
)

// ErrClosed is what calls on a closed client return.
var ErrClosed = errors.New("exec-server transport closed")

// ErrStdinClosed says that a process takes no more input.
var ErrStdinClosed = errors.New("the process's stdin is closed")

// ServerError is an error that the server answered with.
type ServerError struct {
	Method  string
	Code    int
	Message string
}

func (e *ServerError) Error() string {
	return fmt.Sprintf("exec-server rejected %s (%d): %s", e.Method, e.Code, e.Message)
}

// ProtocolError says that the server broke the protocol.
type ProtocolError struct{ Message string }

func (e *ProtocolError) Error() string { return "exec-server protocol error: " + e.Message }

func protocolf(format string, args ...any) error {
	return &ProtocolError{fmt.Sprintf(format, args...)}
}

// IsCode reports whether err is a server's error with that code.
func IsCode(err error, code int) bool {
	var e *ServerError
	return errors.As(err, &e) && e.Code == code
}
