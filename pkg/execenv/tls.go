package execenv

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"

	"codex.internal/pkg/host/safeopen"
)

// TLSFiles name files in PEM format, for wss. Empty: none.
type TLSFiles struct {
	// CA has the authorities that are trusted, in place of the system's.
	CA string
	// ClientCert and ClientKey are what this client shows. Both are set, or none.
	ClientCert, ClientKey string
}

// check returns what is wrong about the choice of files.
func (f TLSFiles) check() error {
	if (f.ClientCert == "") != (f.ClientKey == "") {
		return errors.New("client_cert and client_key belong together; give both or none")
	}
	return nil
}

// below makes relative paths relative to a directory.
func (f TLSFiles) below(dir string) TLSFiles {
	for _, path := range []*string{&f.CA, &f.ClientCert, &f.ClientKey} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	return f
}

// config reads the files; nil: there are none.
func (f TLSFiles) config() (*tls.Config, error) {
	if f == (TLSFiles{}) {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		text, err := safeopen.ReadFile(f.CA, maxPEMBytes)
		if err != nil {
			return nil, fmt.Errorf("the authorities to trust: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("the authorities to trust: %s has no certificate in PEM format", f.CA)
		}
	}
	if err := f.check(); err != nil || f.ClientCert == "" {
		return config, err
	}
	cert, err := safeopen.ReadFile(f.ClientCert, maxPEMBytes)
	if err != nil {
		return nil, fmt.Errorf("the certificate of this client: %w", err)
	}
	key, err := safeopen.ReadFile(f.ClientKey, maxPEMBytes)
	if err != nil {
		return nil, fmt.Errorf("the key of this client: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("the certificate %s with the key %s: %w", f.ClientCert, f.ClientKey, err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}
