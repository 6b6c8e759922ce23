package cmdutil

import (
	"errors"
	"fmt"
	"testing"

	"codex.internal/pkg/execclient"
)

func TestPlain(t *testing.T) {
	answer := func(message string) error {
		return &execclient.ServerError{Method: "m", Code: -32004, Message: message}
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{errors.New("a (os error 2)"), "a (os error 2)"},
		{fmt.Errorf("/etc/x: %w", answer("No such file or directory (os error 2): /etc/x")), "/etc/x: no such file or directory"},
		{fmt.Errorf(":x: %w", answer("No such file or directory (os error 2): /tmp/:x")), ":x: /tmp/:x: no such file or directory"},
		{fmt.Errorf("copy :/a b: %w", answer("Permission denied (os error 13): /a b")), "copy :/a b: permission denied"},
		{fmt.Errorf("copy /a: %w", answer("No such file or directory (os error 2): /b: c")), "copy /a: /b: c: no such file or directory"},
		{answer("No such file or directory (os error 2): program /no/such"), "program /no/such: no such file or directory"},
		{answer("No such file or directory (os error 2)"), "no such file or directory"},
		{fmt.Errorf("/etc: %w", answer("path `/etc` is not a file")), "/etc: path `/etc` is not a file"},
		{answer("cannot make the sandbox: open /x: Permission denied (os error 13)"), "cannot make the sandbox: open /x: Permission denied"},
		{answer("RPC failed (os error 5)"), "RPC failed"},
		{answer(""), ""},
	} {
		if got := Plain(tt.err); got != tt.want {
			t.Errorf("%v:\n%s, want\n%s", tt.err, got, tt.want)
		}
	}
}
