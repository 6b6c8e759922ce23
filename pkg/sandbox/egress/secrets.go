package egress

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// secrets holds the server's injections for the proxy of one process. A nil *secrets
// injects nothing. It does not change, and its methods may be called from any goroutine.
type secrets struct {
	authority *certAuthority
	bundle    *bundle
	origins   map[string]*origin // by host:port
	// placeholders maps each variable to its placeholder, which is random for each process.
	placeholders map[string]string
	texts        [][]byte // the longest of all placeholders
}

// origin is a host and port whose requests get credentials.
type origin struct {
	host       string
	port       uint16
	injections []*injection
	server     *tls.Config
	transport  *http.Transport
	// foreign are the placeholders that belong to other origins.
	foreign [][]byte
}

// newSecrets creates the authority, the bundle and the placeholders of a process. It returns nil if
// the server injects nothing.
func (x *Proxy) newSecrets() (*secrets, error) {
	ceiling := x.ceiling
	if ceiling == nil || len(ceiling.injections) == 0 {
		return nil, nil
	}
	s := &secrets{origins: make(map[string]*origin), placeholders: make(map[string]string)}
	var hosts []string
	for i := range ceiling.injections {
		one := &ceiling.injections[i]
		if err := s.add(x, one); err != nil {
			return nil, fmt.Errorf("inject[%d]: %w", i, err)
		}
		if !slices.Contains(hosts, one.host) {
			hosts = append(hosts, one.host)
		}
	}
	var err error
	if s.authority, err = newAuthority(hosts); err != nil {
		return nil, err
	}
	for _, o := range s.origins {
		o.server = s.authority.server(o.host)
		for name, text := range s.placeholders {
			if !slices.ContainsFunc(o.injections, func(e *injection) bool { return e.PlaceholderEnv == name }) {
				o.foreign = append(o.foreign, []byte(text))
			}
		}
	}
	system, err := systemBundle(x.host.opts.Getenv)
	if err != nil {
		return nil, err
	}
	s.bundle, err = newBundle(x.host.opts.BundleDir, system, s.authority.pem())
	if err != nil {
		return nil, err
	}
	return s, nil
}

// add adds an injection to its origin.
func (s *secrets) add(x *Proxy, one *injection) error {
	key := hostPort(one.host, one.port)
	o := s.origins[key]
	if o == nil {
		roots, err := one.roots()
		if err != nil {
			return err
		}
		o = &origin{host: one.host, port: one.port, transport: x.newTransport()}
		o.transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
		o.transport.TLSHandshakeTimeout = connectTime
		s.origins[key] = o
	}
	o.injections = append(o.injections, one)
	if name := one.PlaceholderEnv; name != "" && s.placeholders[name] == "" {
		random := make([]byte, placeholderBytes)
		_, _ = rand.Read(random) // it never fails
		text := placeholderPrefix + hex.EncodeToString(random)
		s.placeholders[name] = text
		s.texts = append(s.texts, []byte(text))
	}
	return nil
}

// placeholderPrefix makes a placeholder recognizable to people.
const placeholderPrefix = "codex-placeholder-"

// close removes the bundle and closes the idle connections.
func (s *secrets) close() {
	if s == nil {
		return
	}
	s.bundle.close()
	for _, o := range s.origins {
		o.transport.CloseIdleConnections()
	}
}

// Bundle returns the path of the file with the certificate authorities that the process must trust,
// or "" if there is none. The process must be able to read the file and must not be able to change
// it. Close removes the file.
func (x *Proxy) Bundle() string {
	if x.secrets == nil {
		return ""
	}
	return x.secrets.bundle.path
}

// origin returns the origin of a host and port, or nil if it gets no credentials.
func (s *secrets) origin(q Question) *origin {
	if s == nil {
		return nil
	}
	return s.origins[hostPort(q.Host, q.Port)]
}

// environ calls add with the placeholders and with the path of the bundle.
func (s *secrets) environ(add func(names []string, value string)) {
	if s == nil {
		return
	}
	add(bundleVariables, s.bundle.path)
	for name, text := range s.placeholders {
		add([]string{name}, text)
	}
}

// foreign returns the placeholders that must not be sent to an origin. A nil origin stands for any
// host without credentials.
func (s *secrets) foreign(o *origin) [][]byte {
	switch {
	case s == nil:
		return nil
	case o == nil:
		return s.texts
	default:
		return o.foreign
	}
}

// holds reports whether text contains one of the texts.
func holds(text string, texts [][]byte) bool {
	return slices.ContainsFunc(texts, func(t []byte) bool { return strings.Contains(text, string(t)) })
}

// headHolds reports whether a head contains one of the texts, also within Basic credentials, which
// programs encode from a user and a password.
func headHolds(h *head, texts [][]byte) bool {
	if len(texts) == 0 {
		return false
	}
	if holds(h.RequestURI, texts) || holds(strings.Join(h.hosts, " "), texts) {
		return true
	}
	for name, values := range h.Header {
		for _, value := range values {
			if holds(lower(name), texts) || holds(value, texts) || holds(basic(value), texts) {
				return true
			}
		}
	}
	return false
}

// basic returns the user:password of Basic credentials, or "" for any other scheme.
func basic(value string) string {
	scheme, encoded, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, basicScheme) {
		return ""
	}
	text, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	return string(text)
}

// credentials adds the credentials of an origin to a request. They replace the headers of the same
// names that the process has sent. It returns the texts that must be hidden in the answer.
func (o *origin) credentials(out *http.Request) ([][]byte, error) {
	var texts [][]byte
	for _, one := range o.injections {
		c, err := one.value()
		if err != nil {
			return nil, err
		}
		out.Header[one.Header] = []string{c.header}
		texts = append(texts, c.secrets...)
	}
	return longestFirst(texts), nil
}

// conceal replaces the texts in the body of an answer by asterisks. Otherwise a host that echoes
// the headers of a request, such as a page that shows them, would disclose the credential to the
// process. copyAnswer does the same with the head.
func conceal(resp *http.Response, texts [][]byte) {
	if len(texts) > 0 {
		resp.Body = &concealed{Closer: resp.Body, finder: finder{from: resp.Body, texts: texts, found: func([]byte) error { return nil }}}
	}
}

// hide replaces the texts in a text by asterisks, the longest first. It ignores the case of
// letters, because Go capitalizes the names of headers.
func hide(text string, texts [][]byte) string {
	for _, t := range texts {
		secret := lower(string(t))
		for at := 0; ; at += len(secret) {
			next := strings.Index(lower(text[at:]), secret)
			if next < 0 {
				break
			}
			at += next
			text = text[:at] + strings.Repeat("*", len(secret)) + text[at+len(secret):]
		}
	}
	return text
}

// names returns the names of the headers that an origin gets, for the log.
func (o *origin) names() string {
	var b bytes.Buffer
	for i, one := range o.injections {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(one.Header)
	}
	return b.String()
}
