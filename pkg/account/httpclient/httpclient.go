// Package httpclient makes the HTTP transport with which this program asks
// services of its own accord: the identity service and the environment
// registry. It knows the variables that say how to get there, and how to show
// what they answer.
package httpclient

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
)

// The variables that name a file with more certificate authorities. The first
// that is set counts.
var caVariables = []string{"CODEX_CA_CERTIFICATE", "SSL_CERT_FILE"}

// New returns a transport that trusts the system's certificate authorities and
// those in the PEM file that, in the environment that getenv reads,
// CODEX_CA_CERTIFICATE, or else SSL_CERT_FILE, names. It goes through the proxy
// of HTTPS_PROXY, HTTP_PROXY and NO_PROXY in the environment of the process, as
// that was when net/http first needed it. It does not offer to take compressed
// answers. The caller must call CloseIdleConnections in the end. An error names the
// variable and the file.
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
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no PEM certificate", path)
	}
	return pool, nil
}
