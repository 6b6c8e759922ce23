package cmdutil

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"sync"

	"codex.internal/pkg/host/safeopen"
	"codex.internal/pkg/wire/authorities"
)

// maxTLSFile bounds a file of certificates or of a key, in bytes. The certificates of all public
// authorities together have 250 KB.
const maxTLSFile = 1 << 20

// TLSFiles are the files of a server that speaks TLS, in PEM format.
type TLSFiles struct {
	Cert, Key string
	// ClientCA is a file with the authorities of client certificates. If it is not empty, clients
	// must have a certificate.
	ClientCA string
}

// Server returns the TLS configuration of a server. After a file has changed, the next connection uses its new
// content. If reading it fails, the error is logged once, and the previous content stays in use.
func (f TLSFiles) Server(log *slog.Logger) (*tls.Config, error) {
	r := &tlsReader{files: f, log: log}
	r.seen = r.look()
	var err error
	if r.config, err = f.read(); err != nil {
		return nil, err
	}
	if info := r.seen[1]; info != nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o007 != 0 {
		log.Warn("every user of this machine may read or change the key; run chmod 600 on it", "path", f.Key)
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS12,
		SessionTicketsDisabled: true,
		GetConfigForClient:     func(*tls.ClientHelloInfo) (*tls.Config, error) { return r.current(), nil },
	}, nil
}

// read reads the files.
func (f TLSFiles) read() (*tls.Config, error) {
	cert, err := readTLSFile("--tls-cert", f.Cert)
	if err != nil {
		return nil, err
	}
	key, err := readTLSFile("--tls-key", f.Key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", f.Cert, f.Key, err)
	}
	// Disable session tickets: a resumed TLS session is not verified again, so changed authorities would not apply.
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true}
	if f.ClientCA == "" {
		return config, nil
	}
	if config.ClientCAs, err = clientAuthorities("--tls-client-ca", f.ClientCA); err != nil {
		return nil, err
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	return config, nil
}

// clientAuthorities reads the certificates of authorities from the file that an option names.
func clientAuthorities(option, path string) (*x509.CertPool, error) {
	text, err := readTLSFile(option, path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !authorities.Append(pool, text, authorities.ClientAuth) {
		return nil, fmt.Errorf("%s %s: it has no certificate in PEM format", option, path)
	}
	return pool, nil
}

func readTLSFile(option, path string) ([]byte, error) {
	text, err := safeopen.ReadFile(path, maxTLSFile)
	if about, ok := errors.AsType[*fs.PathError](err); ok {
		err = about.Err // the message has the path already
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", option, path, err)
	}
	return text, nil
}

// tlsReader has the last content of the files.
type tlsReader struct {
	files TLSFiles
	log   *slog.Logger

	mu     sync.Mutex
	seen   [3]os.FileInfo // nil: no certificate was read
	config *tls.Config
}

// current returns the content of the files. It reads them again if one has changed, which it checks with three
// system calls.
func (r *tlsReader) current() *tls.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.look()
	same := true
	for i := range now {
		same = same && sameFile(now[i], r.seen[i])
	}
	if same {
		return r.config
	}
	r.seen = now
	config, err := r.files.read()
	if err != nil {
		r.log.Warn("cannot read the new certificate; the previous one stays in use", "error", err)
		return r.config
	}
	r.log.Info("the certificate was read again")
	r.config = config
	return config
}

// look returns the file information of the files.
func (r *tlsReader) look() (seen [3]os.FileInfo) {
	for i, path := range []string{r.files.Cert, r.files.Key, r.files.ClientCA} {
		if info, err := os.Stat(path); path != "" && err == nil {
			seen[i] = info
		}
	}
	return seen
}

// sameFile reports whether a file has not changed.
func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// CheckTLSFiles returns the files that the options --tls-cert, --tls-key and
// --tls-client-ca name; Cert is empty if none is given.
func CheckTLSFiles(cert, key, clientCA string) (TLSFiles, error) {
	switch {
	case (cert == "") != (key == ""):
		return TLSFiles{}, Usagef("--tls-cert and --tls-key must be given together")
	case clientCA != "" && cert == "":
		return TLSFiles{}, Usagef("--tls-client-ca needs --tls-cert and --tls-key")
	}
	return TLSFiles{Cert: cert, Key: key, ClientCA: clientCA}, nil
}
