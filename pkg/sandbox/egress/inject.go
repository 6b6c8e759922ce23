package egress

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"codex.internal/pkg/host/safeopen"
	"codex.internal/pkg/wire/authorities"
)

// Injection is a credential that proxies add to the requests for one host. The process that sends
// the requests never has the credential (docs/spec/network.md §4.8).
type Injection struct {
	// Host is a name or an address, with a port unless that is 443. It is not a pattern:
	// the owner must know which host gets the credential.
	Host string
	// Header is the header that gets the credential, such as Authorization.
	Header string
	// Scheme precedes the value, as in `Bearer VALUE`. If it is empty, the value is sent alone. For
	// Basic the value is user:password, which is sent in base64.
	Scheme string
	// ValueFile is the absolute path of the file with the value. The file is read for each request,
	// and blanks and newlines around the value are ignored. Sandboxed processes must not see its
	// directory: see Ceiling.SecretPaths.
	ValueFile string
	// PlaceholderEnv names the variable in which a process gets a text that stands for the value;
	// empty: the process gets no such text.
	PlaceholderEnv string
	// UpstreamCA is the absolute path of a PEM file. Only the certificate authorities in it may
	// have signed the host's certificate; empty: the system's authorities are used.
	UpstreamCA string
}

// injection is a checked Injection.
type injection struct {
	Injection
	host string
	port uint16
}

// checkInjections checks the injections of a CeilingConfig. It does not read their files.
func checkInjections(list []Injection) ([]injection, error) {
	if len(list) > maxInjections {
		return nil, fmt.Errorf("inject: %d entries are given; at most %d are supported", len(list), maxInjections)
	}
	var checked []injection
	for i, entry := range list {
		one, err := entry.check()
		if err != nil {
			return nil, fmt.Errorf("inject[%d]: %w", i, err)
		}
		for j, other := range checked {
			switch same := one.host == other.host && one.port == other.port; {
			case same && one.Header == other.Header:
				return nil, fmt.Errorf("inject[%d]: inject[%d] sets %s for %s already", i, j, one.Header, one.Host)
			case same && one.UpstreamCA != other.UpstreamCA:
				return nil, fmt.Errorf("inject[%d]: inject[%d] has another upstream_ca for %s; both need the same", i, j, one.Host)
			}
		}
		checked = append(checked, one)
	}
	return checked, nil
}

func (e Injection) check() (injection, error) {
	one := injection{Injection: e}
	var err error
	if one.host, one.port, err = authority(e.Host, 443); err != nil || one.port == 0 || strings.ContainsAny(e.Host, "@/ ") {
		return one, fmt.Errorf("host is %q: it must be one name or address, such as \"api.example.com\" or \"api.example.com:8443\"", e.Host)
	}
	if err := (pattern{text: one.host}).checkReach(); err != nil {
		return one, fmt.Errorf("host: %w", err)
	}
	one.Header = http.CanonicalHeaderKey(e.Header)
	switch {
	case !isToken(e.Header) || len(e.Header) > maxHeaderName:
		return one, fmt.Errorf("header is %q: it must be the name of a header, such as \"Authorization\"", e.Header)
	case slices.Contains(append(ownHeaders, hopByHop...), one.Header):
		return one, fmt.Errorf("header is %q: this header belongs to the transport and cannot be set", e.Header)
	case e.Scheme != "" && !isToken(e.Scheme) || len(e.Scheme) > maxHeaderName:
		return one, fmt.Errorf("scheme is %q: it must be one word, such as \"Bearer\", or left out", e.Scheme)
	case e.PlaceholderEnv != "" && !isVariable(e.PlaceholderEnv):
		return one, fmt.Errorf("placeholder_env is %q: it must be the name of a variable of letters, digits and _", e.PlaceholderEnv)
	case reservedVariable(e.PlaceholderEnv):
		return one, fmt.Errorf("placeholder_env is %q: the network proxy sets this variable itself", e.PlaceholderEnv)
	case e.UpstreamCA != "" && !filepath.IsAbs(e.UpstreamCA):
		return one, fmt.Errorf("upstream_ca is %q: it must be an absolute path", e.UpstreamCA)
	}
	return one, checkValueFile(e.ValueFile)
}

// checkValueFile refuses a path in a directory that cannot be hidden from sandboxed processes,
// because they need that directory for other purposes.
func checkValueFile(path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return fmt.Errorf("value_file is %q: it must be absolute, and have no . or .. in it", path)
	}
	dir := filepath.Dir(path)
	home, err := os.UserHomeDir()
	if filepath.Dir(filepath.Dir(dir)) == filepath.Dir(dir) || err == nil && within(filepath.Clean(home), dir) {
		return fmt.Errorf("value_file is %q: sandboxed commands do not see its directory, so it must be in a separate directory, "+
			"such as ~/.codex/secrets", path)
	}
	return nil
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	rest, below := strings.CutPrefix(path, strings.TrimSuffix(dir, "/"))
	return below && (rest == "" || rest[0] == '/')
}

// ownHeaders are headers that the proxy sets itself.
var ownHeaders = []string{"Host", "Content-Length", "Expect", "Accept-Encoding", "Proxy-Authenticate"}

// isToken reports whether text is a token of HTTP (RFC 9110, section 5.6.2).
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r)
	})
}

func isVariable(name string) bool {
	return len(name) <= maxHeaderName && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) && (name[0] < '0' || name[0] > '9')
}

// reservedVariable reports whether the proxy sets a variable itself, or the value of the variable
// decides which programs are run.
func reservedVariable(name string) bool {
	for _, list := range [][]string{
		webVariables, allVariables, exceptVariables, removedVariables, bundleVariables, {"PATH", "HOME", "SHELL", "IFS", "BASH_ENV", "ENV"},
	} {
		if slices.ContainsFunc(list, func(other string) bool { return strings.EqualFold(other, name) }) {
			return true
		}
	}
	name = strings.ToUpper(name)
	return strings.HasPrefix(name, "CODEX_") || strings.HasPrefix(name, "LD_") || name == "NODE_USE_ENV_PROXY" ||
		name == "ELECTRON_GET_USE_PROXY"
}

// CheckFiles reads the files of the injections as a request would, so that a server does not start
// if a file is missing or readable by others. A nil Ceiling has no injections.
func (c *Ceiling) CheckFiles() error {
	if c == nil {
		return nil
	}
	for i := range c.injections {
		one := &c.injections[i]
		_, err := one.value()
		if err == nil {
			_, err = one.roots()
		}
		if err != nil {
			return fmt.Errorf("inject[%d]: %w", i, err)
		}
	}
	return nil
}

// SecretPaths returns the paths that no sandboxed process may see: the directories of the value
// files, the targets of links above them, and the files themselves. The files are included because
// an entry of a profile for a file takes precedence over an entry for its directory. A nil Ceiling
// has no such paths.
func (c *Ceiling) SecretPaths() []string {
	var list []string
	if c == nil {
		return nil
	}
	for _, one := range c.injections {
		dir := filepath.Dir(one.ValueFile)
		list = append(list, dir, one.ValueFile)
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			list = append(list, real, filepath.Join(real, filepath.Base(one.ValueFile)))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// credential is the value of a header, and the texts by which the proxy recognizes the credential
// in answers. It must not be logged.
type credential struct {
	header  string
	secrets [][]byte
}

// value reads the credential from its file.
func (e *injection) value() (credential, error) {
	text, err := safeopen.ReadPrivate(e.ValueFile, maxValueFile)
	if err != nil {
		return credential{}, fmt.Errorf("value_file: %w", err)
	}
	value := bytes.TrimSpace(text)
	if len(value) < minValue || len(value) > maxValue || bytes.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
		return credential{}, fmt.Errorf("value_file %s: the value must be one line of %d to %d printable ASCII characters",
			e.ValueFile, minValue, maxValue)
	}
	c := credential{header: string(value), secrets: [][]byte{value}}
	if strings.EqualFold(e.Scheme, basicScheme) {
		_, password, found := bytes.Cut(value, []byte(":"))
		if !found || len(password) < minValue {
			return credential{}, fmt.Errorf("value_file %s: for the scheme Basic it must contain user:password, and a password of %d characters or more",
				e.ValueFile, minValue)
		}
		c.header = base64.StdEncoding.EncodeToString(value)
		c.secrets = [][]byte{password, []byte(c.header)}
	}
	if e.Scheme != "" {
		c.header = e.Scheme + " " + c.header
	}
	return c, nil
}

// basicScheme is the scheme whose credentials are in base64 (RFC 7617).
const basicScheme = "Basic"

// roots returns the certificate authorities that may sign the host's certificate; nil: those of the
// system.
func (e *injection) roots() (*x509.CertPool, error) {
	if e.UpstreamCA == "" {
		return nil, nil
	}
	text, err := safeopen.ReadFile(e.UpstreamCA, maxUpstreamCA)
	if err != nil {
		return nil, fmt.Errorf("upstream_ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !authorities.Append(pool, text, authorities.ServerAuth) {
		return nil, fmt.Errorf("upstream_ca %s: %w", e.UpstreamCA, errNoCertificate)
	}
	return pool, nil
}

var errNoCertificate = errors.New("it holds no certificate; it must be a PEM file")
