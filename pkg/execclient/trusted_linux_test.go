package execclient

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTokensGoToTrustedUsers: a process that listens at the server's address gets the token
// only if it belongs to this user, to root, or to the user in Options.ServerUser.
func TestTokensGoToTrustedUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to be another user")
	}
	const other = 54321
	dir := t.TempDir()
	for parent := dir; parent != os.TempDir() && parent != "/"; parent = filepath.Dir(parent) {
		must(t, os.Chmod(parent, 0o777))
	}
	// listen listens as the given user, and returns the tokens that arrive.
	listen := func(network, address string, uid int) (net.Listener, chan string) {
		tokens, ready := make(chan string, 1), make(chan net.Listener)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread keeps that user
			_, _, e := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0))
			l, err := net.Listen(network, address)
			if e != 0 || err != nil {
				t.Error(e, err)
			}
			ready <- l
			conn, err := l.Accept()
			if err != nil {
				close(tokens)
				return
			}
			r, err := http.ReadRequest(bufio.NewReader(conn))
			if err == nil {
				tokens <- r.Header.Get("Authorization")
			}
			_ = conn.Close()
			close(tokens)
		}()
		return <-ready, tokens
	}
	for _, tt := range []struct {
		server, named int
		want          bool
	}{
		{0, 0, true}, {other, 0, false}, {other, 12345, false}, {other, other, true}, {other, AnyUser, true},
	} {
		for _, network := range []string{"tcp", "unix"} {
			address := "127.0.0.1:0"
			if network == "unix" {
				address = filepath.Join(dir, "s")
			}
			l, tokens := listen(network, address, tt.server)
			url := "ws://" + l.Addr().String()
			if network == "unix" {
				url = "unix://" + address
			}
			_, err := DialWebSocket(t.Context(), url, Options{BearerToken: "secret", ServerUser: tt.named})
			_ = l.Close()
			token := <-tokens
			if got := token == "Bearer secret"; got != tt.want {
				t.Errorf("%s of user %d, named %d: it got %q; want the token: %v", network, tt.server, tt.named, token, tt.want)
			}
			var failed *DialError
			if !errors.As(err, &failed) || !tt.want && !strings.Contains(err.Error(), "it is a server of user 54321") || !tt.want != errors.Is(err, ErrUntrustedServer) {
				t.Errorf("%s of user %d: %v", network, tt.server, err)
			}
		}
	}
}
