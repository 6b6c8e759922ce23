// Package httpclient makes the HTTP transport with which this program asks
// services of its own accord: the identity service and the environment
// registry. It knows the variables that say how to get there.
package httpclient

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"

	"golang.org/x/net/http/httpproxy"
)

// The variables that name a file with more certificate authorities. The first
// that is set counts.
var caVariables = []string{"CODEX_CA_CERTIFICATE", "SSL_CERT_FILE"}

// New returns a transport as the environment that getenv reads wants it:
// through the proxy of HTTPS_PROXY, HTTP_PROXY and NO_PROXY, trusting the
// system's certificate authorities and those in the PEM file that
// CODEX_CA_CERTIFICATE, or else SSL_CERT_FILE, names. It does not offer to take
// compressed answers. Who gets it calls CloseIdleConnections in the end. An
// error names the variable and the file.
func New(getenv func(string) string) (*http.Transport, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableCompression = true
	proxy := proxyFunc(getenv)
	t.Proxy = func(r *http.Request) (*url.URL, error) { return proxy(r.URL) }
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

// proxyFunc is that of the environment that getenv reads, where names in
// capitals win.
func proxyFunc(getenv func(string) string) func(*url.URL) (*url.URL, error) {
	either := func(upper, lower string) string {
		if v := getenv(upper); v != "" {
			return v
		}
		return getenv(lower)
	}
	config := httpproxy.Config{
		HTTPProxy: either("HTTP_PROXY", "http_proxy"), HTTPSProxy: either("HTTPS_PROXY", "https_proxy"),
		NoProxy: either("NO_PROXY", "no_proxy"), CGI: getenv("REQUEST_METHOD") != "",
	}
	return config.ProxyFunc()
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
