package execenv

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"

	"codex.internal/pkg/host/safeopen"
	"codex.internal/pkg/wire/authorities"
)

// TLSFiles are the paths of PEM files for wss; empty: none.
type TLSFiles struct {
	// CA has the trusted authorities, which replace the system's.
	CA string
	// ClientCert and ClientKey are the certificate of this client and its key. Both or
	// neither are set.
	ClientCert, ClientKey string
}

// check returns an error if the files do not fit together.
func (f TLSFiles) check() error {
	if (f.ClientCert == "") != (f.ClientKey == "") {
		return errors.New("client_cert and client_key must be given together")
	}
	return nil
}

// below makes relative paths absolute, starting from a directory.
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
		if !authorities.Append(config.RootCAs, text, authorities.ServerAuth) {
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
