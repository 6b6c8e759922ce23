package websocket

import "testing"

// TestIsLoopback has hosts that are this machine, and hosts that only look like it.
func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost": true, "127.0.0.1": true, "127.8.9.1": true, "::1": true,
		"": false, "localhost.test": false, "127.0.0.1.test": false, "128.0.0.1": false, "0.0.0.0": false, "::": false,
		"::ffff:127.0.0.1": false, "127.1": false, "[::1]": false,
	} {
		if got := IsLoopback(host); got != want {
			t.Errorf("IsLoopback(%q) is %t, want %t", host, got, want)
		}
	}
}
