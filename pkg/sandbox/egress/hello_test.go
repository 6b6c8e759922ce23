package egress

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// helloOf returns the first message of a TLS client.
func helloOf(t testing.TB, config *tls.Config) []byte {
	t.Helper()
	var sent bytes.Buffer
	client := tls.Client(&recorded{w: &sent}, config)
	if err := client.Handshake(); err == nil {
		t.Fatal("there is a handshake without a server")
	}
	return sent.Bytes()
}

// recorded is a connection that accepts all writes and answers nothing.
type recorded struct {
	net.Conn
	w io.Writer
}

func (c *recorded) Write(b []byte) (int, error)      { return c.w.Write(b) }
func (c *recorded) Read([]byte) (int, error)         { return 0, io.EOF }
func (c *recorded) Close() error                     { return nil }
func (c *recorded) SetDeadline(time.Time) error      { return nil }
func (c *recorded) SetWriteDeadline(time.Time) error { return nil }

// inRecords splits a message into several records.
func inRecords(hello []byte) []byte {
	var b []byte
	for message := hello[5:]; len(message) > 0; {
		n := min(100, len(message))
		b = append(append(b, hello[0], hello[1], hello[2], 0, byte(n)), message[:n]...)
		message = message[n:]
	}
	return b
}

// TestServerNames: the name is found however the message is split, and the whole message can still
// be forwarded.
func TestServerNames(t *testing.T) {
	long := strings.Repeat("x", 60) + "." + strings.Repeat("y", 60) + ".test"
	protocols := make([]string, 100)
	for i := range protocols {
		protocols[i] = strings.Repeat("p", 200)
	}
	for name, tt := range map[string]struct {
		sent []byte
		want string
	}{
		"a name":           {helloOf(t, &tls.Config{ServerName: "A.test"}), "a.test"},
		"a long name":      {helloOf(t, &tls.Config{ServerName: long}), long},
		"an old version":   {helloOf(t, &tls.Config{ServerName: "a.test", MaxVersion: tls.VersionTLS12}), "a.test"},
		"several records":  {inRecords(helloOf(t, &tls.Config{ServerName: "a.test"})), "a.test"},
		"no name":          {helloOf(t, &tls.Config{InsecureSkipVerify: true}), ""},
		"an address":       {helloOf(t, &tls.Config{ServerName: "93.184.216.34"}), ""},
		"half a message":   {helloOf(t, &tls.Config{ServerName: "a.test"})[:100], ""},
		"more than fits":   {helloOf(t, &tls.Config{ServerName: "a.test", NextProtos: protocols}), ""},
		"another protocol": {[]byte("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"), ""},
		"nothing":          {nil, ""},
	} {
		for how, from := range map[string]io.Reader{"whole": bytes.NewReader(tt.sent), "by bytes": iotest.OneByteReader(bytes.NewReader(tt.sent))} {
			r := bufio.NewReaderSize(from, readBuffer)
			if got := serverName(r); got != tt.want {
				t.Errorf("%s, %s: got %q, want %q", name, how, got, tt.want)
			}
			if left, err := io.ReadAll(r); err != nil || !bytes.Equal(left, tt.sent) {
				t.Errorf("%s, %s: %d bytes of %d are left, %v", name, how, len(left), len(tt.sent), err)
			}
		}
	}
}

// FuzzServerName: a name is a host in normal form, and no bytes are lost.
func FuzzServerName(f *testing.F) {
	f.Add(helloOf(f, &tls.Config{ServerName: "a.test"}))
	f.Add(inRecords(helloOf(f, &tls.Config{ServerName: "a.test", MaxVersion: tls.VersionTLS12})))
	f.Add([]byte{22, 3, 1, 0, 1, 1})
	f.Fuzz(func(t *testing.T, sent []byte) {
		r := bufio.NewReaderSize(bytes.NewReader(sent), readBuffer)
		name := serverName(r)
		if host, ok := normalHost(name); name != "" && (!ok || host != name) {
			t.Errorf("the name %q is none", name)
		}
		if left, _ := io.ReadAll(r); !bytes.Equal(left, sent) {
			t.Errorf("%d bytes of %d are left", len(left), len(sent))
		}
	})
}
