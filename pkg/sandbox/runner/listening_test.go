//go:build linux

package runner

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
)

const socketTable = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 17 1 0000000000000000 100 0 0 10 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 18 1 0000000000000000 100 0 0 10 0
   2: 0100007F:1F90 0100007F:8001 01 00000000:00000000 00:00000000 00000000     0        0 19 1 0000000000000000 100 0 0 10 0
   3: 00000000:0017 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 20 1 0000000000000000 100 0 0 10 0
`

func TestParseListening(t *testing.T) {
	table := make(map[uint64]netip.AddrPort)
	if parseListening([]byte(socketTable), table) {
		t.Error("the connection was not noticed")
	}
	if got := fmt.Sprint(table); got != "map[17:127.0.0.1:8080 18:0.0.0.0:22]" {
		t.Errorf(`got %v, want "map[17:127.0.0.1:8080 18:0.0.0.0:22]"`, got)
	}
	for text, want := range map[string]string{
		"0100007F:1F90":                         "127.0.0.1:8080",
		"00000000000000000000000001000000:0050": "[::1]:80",
		"0000000000000000FFFF00000100007F:0050": "127.0.0.1:80",
		"0100007F":                              "",
		"0100007:0050":                          "",
		"0100007F:10000":                        "",
		"0100007FF:0050":                        "",
	} {
		at, ok := parseSocketAddress(text)
		if ok != (want != "") || ok && at.String() != want {
			t.Errorf("%s: got at %v, ok %v; want ok %v, at %v", text, at, ok, want != "", want)
		}
	}
}

// TestListening finds the listeners of this process and of another one.
func TestListening(t *testing.T) {
	want := make(map[string]bool)
	for _, address := range []string{"127.0.0.1:0", "127.0.0.2:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		want[l.Addr().String()] = true
	}
	other := exec.Command("cat")
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Wait()
	defer in.Close()
	found, truncated := Listening(t.Context(), []Family{{Pids: []int{other.Process.Pid}}, {Pids: []int{os.Getpid()}}, {}})
	if truncated || len(found) != 3 || len(found[0]) != 0 || len(found[2]) != 0 {
		t.Errorf("got found %v, truncated %v; want truncated false, len(found) 3, len(found[0]) 0, len(found[2]) 0", found, truncated)
	}
	for _, l := range found[1] {
		if l.Pid != os.Getpid() || !strings.HasPrefix(l.Command, os.Args[0]) {
			t.Errorf("got %+v; want l.Pid %v, l.Command beginning with os.Args[0]", l, os.Getpid())
		}
		delete(want, l.Address.String())
	}
	if len(want) > 0 {
		t.Errorf("%v was not found among %v", want, found[1])
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if found, truncated := Listening(ended, []Family{{Pids: []int{os.Getpid()}}}); !truncated || len(found[0]) != 0 {
		t.Errorf("after the end: %v, %v", found, truncated)
	}
}

// TestListeningTruncated has more listeners than are reported.
func TestListeningTruncated(t *testing.T) {
	for range maxListeners + 1 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	found, truncated := Listening(t.Context(), []Family{{Pids: []int{os.Getpid()}}})
	if !truncated || len(found[0]) != maxListeners {
		t.Errorf("%d are told, %v", len(found[0]), truncated)
	}
}

func FuzzParseListening(f *testing.F) {
	f.Add([]byte(socketTable))
	f.Add([]byte("a b c 0A e f g h i 1\n 0: 00000000000000000000000001000000:0050 x 0A 5 6 7 8 9 99\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		table := make(map[uint64]netip.AddrPort)
		parseListening(text, table)
		for inode, at := range table {
			if inode == 0 || !at.IsValid() {
				t.Fatalf("got inode %d, at %v; want inode other than 0, at.IsValid()", inode, at)
			}
		}
	})
}
