// Package httpclient makes the HTTP transport for this program's own requests
// to services: the identity service and the environment registry. It reads the
// variables for proxies and certificates, and makes answers safe to show.
package httpclient

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"

	"codex.internal/pkg/wire/authorities"
)

// These variables name a file with additional certificate authorities. The first one that is set is
// used.
var caVariables = []string{"CODEX_CA_CERTIFICATE", "SSL_CERT_FILE"}

// New returns a transport that trusts the system's certificate authorities and those in a PEM file.
// getenv returns the file's path for CODEX_CA_CERTIFICATE or, if that is unset, for SSL_CERT_FILE.
// The transport uses the proxies of HTTPS_PROXY, HTTP_PROXY and NO_PROXY from the process's
// environment, which net/http reads only once. By itself it does not request compressed answers. The caller
// must call CloseIdleConnections at the end. An error names the variable and the file.
func New(getenv func(string) string) (*http.Transport, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableCompression = true
	for _, variable := range caVariables {
		path := getenv(variable)
		if path == "" {
			continue
		}
		roots, err := withRoots(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", variable, err)
		}
		t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
		break
	}
	return t, nil
}

// withRoots returns the system's certificate authorities and those of a file.
func withRoots(path string) (*x509.CertPool, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxBundle+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxBundle:
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxBundle)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("the system's certificate authorities: %w", err)
	}
	if !authorities.Append(pool, text, authorities.ServerAuth) {
		return nil, fmt.Errorf("%s has no PEM certificate", path)
	}
	return pool, nil
}
