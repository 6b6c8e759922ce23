package natsbus

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"

	"codex.internal/pkg/wire/websocket"
)

// schemes are the schemes of server URLs.
var schemes = []string{"nats", "tls", "ws", "wss"}

// checkServers returns an error if a text is not a list of server URLs. The error contains no
// password.
func checkServers(servers string) error {
	for server := range strings.SplitSeq(servers, ",") {
		if _, err := parseServer(server); err != nil {
			return err
		}
	}
	return nil
}

// areLocal reports whether all servers of a valid list are on this machine.
func areLocal(servers string) bool {
	for server := range strings.SplitSeq(servers, ",") {
		if u, err := parseServer(server); err != nil || !websocket.IsLoopback(u.Hostname()) {
			return false
		}
	}
	return true
}

var errPlaintext = errors.New("the server is not on this machine, and the connection would not be encrypted")

// localDialer connects only to this machine. Scenario: a server on a loopback address announces the
// other servers of its cluster, and a node without encryption would send them its password
// (TestSecretsAreEncrypted).
type localDialer struct{ net.Dialer }

// Dial implements nats.CustomDialer.
func (d *localDialer) Dial(network, address string) (net.Conn, error) {
	if host, _, err := net.SplitHostPort(address); err != nil || !websocket.IsLoopback(host) {
		return nil, fmt.Errorf("%s: %w", address, errPlaintext)
	}
	return d.Dialer.Dial(network, address)
}

// HasSecret reports whether one of the URLs in a list of servers may contain a user, a token or a
// password. Such a list must not be in a command line.
func HasSecret(servers string) bool {
	// The URLs are not parsed, because an invalid URL could contain a secret, too.
	return strings.Contains(servers, "@")
}

// parseServer parses the URL of a server. nats:// may be omitted.
func parseServer(text string) (*url.URL, error) {
	text = strings.TrimSpace(text)
	if !strings.Contains(text, "://") {
		text = "nats://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		// The parser's error is not used, because it contains the whole URL.
		return nil, fmt.Errorf("the URL of a NATS server cannot be read; expected nats://HOST:PORT")
	}
	if !slices.Contains(schemes, u.Scheme) || u.Hostname() == "" {
		return nil, fmt.Errorf("%s is not the URL of a NATS server; expected nats://HOST:PORT or tls://HOST:PORT", u.Redacted())
	}
	return u, nil
}

// checkFiles returns an error if the files with credentials and certificates cannot be read or have
// wrong content. A connection with such files would always fail. The error does not contain their
// content.
func checkFiles(opts *Options) error {
	if opts.Credentials != "" {
		text, err := readFile(opts.Credentials)
		if err != nil {
			return fmt.Errorf("credentials: %w", err)
		}
		keys, err := nkeys.ParseDecoratedUserNKey(text)
		clear(text)
		if err != nil {
			return fmt.Errorf("credentials: %s does not have the credentials of a NATS user: %w", opts.Credentials, err)
		}
		keys.Wipe()
	}
	if opts.CA != "" {
		text, err := readFile(opts.CA)
		if err != nil {
			return fmt.Errorf("certificates: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(text) {
			return fmt.Errorf("certificates: %s has no PEM certificate", opts.CA)
		}
	}
	return nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s exceeds %d bytes; is it the right file?", path, maxFile)
	}
	return text, err
}
