package egress

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// head is the head of a request.
type head struct {
	*http.Request          // without a body
	hosts         []string // the values of its Host headers
}

// Errors of a request head. Each ends the connection.
var (
	errBadHead   = errors.New("not an HTTP request")
	errLargeHead = errors.New("the head of the request is too large")
	errBusyHead  = errors.New("too many requests have large heads")
)

// headSize counts the bytes of a head while it is read, and takes a slot of the proxy when the head
// becomes large. Without slots, a process could make the server hold maxHead bytes for each
// connection, by sending heads that never end.
type headSize struct {
	admit func() bool // takes a slot; called at most once
	size  int
	large bool // it has a slot
}

func (s *headSize) add(n int) error {
	s.size += n
	switch {
	case s.size > maxHead:
		return errLargeHead
	case s.size > smallHead && !s.large:
		if !s.admit() {
			return errBusyHead
		}
		s.large = true
	}
	return nil
}

// readHead reads the head of a request. It reads the lines itself, and net/http parses them. The
// server and ReadRequest of net/http are not used for three reasons. They drop the Host header of a
// request for an absolute URI, which must be compared with the URI. They refuse a second Host
// header without a message. They limit only the size of the head. readHead refuses headers that
// continue on a second line, because the next server may read them differently.
func readHead(r *bufio.Reader, counted *headSize) (*head, error) {
	var text bytes.Buffer
	h := &head{}
	lines := 0
	for {
		if text.Len() == 0 && !mayBeRequest(r) {
			return nil, errBadHead
		}
		line, err := readLine(r, counted.add)
		if err != nil {
			return nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case len(line) == 0 && text.Len() == 0:
			continue // an empty line before a request is ignored (RFC 9112, section 2.2)
		case len(line) == 0:
			text.WriteString("\r\n")
			h.Request, err = http.ReadRequest(bufio.NewReader(&text))
			if err != nil || h.ProtoMajor != 1 {
				return nil, errBadHead
			}
			return h, nil
		case line[0] == ' ' || line[0] == '\t':
			return nil, errBadHead
		}
		name, value, found := bytes.Cut(line, []byte(":"))
		switch {
		case text.Len() == 0: // the request line
		case !found || len(name) == 0 || bytes.ContainsAny(name, " \t"):
			return nil, errBadHead
		default:
			if lines++; lines > maxHeaders {
				return nil, errLargeHead
			}
			if strings.EqualFold(string(name), "Host") {
				h.hosts = append(h.hosts, string(bytes.TrimSpace(value)))
				continue
			}
		}
		text.Write(line)
		text.WriteString("\r\n")
	}
}

// mayBeRequest waits for the end of a request line, and returns false as soon as a byte arrives that no request line can have.
// Scenario: a program takes the HTTP proxy for one that opens TLS. The first record of TLS has no line end, and both sides would
// wait for each other. mayBeRequest consumes nothing. It leaves errors and lines that are too long for the buffer to readLine.
func mayBeRequest(r *bufio.Reader) bool {
	for checked := 0; checked < r.Size(); {
		if _, err := r.Peek(checked + 1); err != nil {
			return true
		}
		text, _ := r.Peek(r.Buffered())
		for ; checked < len(text); checked++ {
			switch c := text[checked]; {
			case c == '\n':
				return true
			case c < ' ' && c != '\r' && c != '\t' || c == 0x7f || checked == 0 && c > 0x7f:
				return false
			}
		}
	}
	return true
}

// readLine reads a line with its line end. It calls count with the size of each part; if count
// returns an error, readLine returns it.
func readLine(r *bufio.Reader, count func(int) error) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if wrong := count(len(part)); wrong != nil {
			return nil, wrong
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// target is the host and path of a request.
type target struct {
	host   string // normalised
	port   uint16
	header string // the Host header for the far side
	path   string // unchanged, with the query
	tls    bool   // https: this proxy opens no TLS
}

// These are the errors of a target, in the words of Codex CLI.
var (
	errNoHost       = errors.New("missing host")
	errHosts        = errors.New("multiple Host headers")
	errHostMismatch = errors.New("Host header does not match request target")
	errHostHeader   = errors.New("invalid Host header")
)

// target returns the target of the request: the host of its URI, or otherwise the host of its Host
// header.
func (h *head) target() (t target, err error) {
	if h.Method == http.MethodConnect {
		// The Host header of a CONNECT is ignored, as in Codex CLI.
		if t.host, t.port, err = authority(h.RequestURI, 80); err != nil {
			return t, errNoHost
		}
		return t, nil
	}
	if len(h.hosts) > 1 {
		return t, errHosts
	}
	scheme, rest, absolute := strings.Cut(h.RequestURI, "://")
	if !absolute || strings.HasPrefix(scheme, "/") {
		// This is neither a path nor the `*` of OPTIONS. An upstream proxy would get it appended to
		// the host, and read it as a part of the host.
		if t.path = h.RequestURI; t.path[0] != '/' && (t.path != "*" || h.Method != http.MethodOptions) {
			return t, errNoHost
		}
		if len(h.hosts) == 0 {
			return t, errNoHost
		}
		t.header = h.hosts[0]
		if t.host, t.port, err = authority(t.header, 80); err != nil {
			return t, errNoHost
		}
		return t, nil
	}
	return h.absolute(strings.ToLower(scheme), rest)
}

// absolute is target for an absolute URI.
func (h *head) absolute(scheme, rest string) (t target, err error) {
	t.tls = scheme == "https" || scheme == "wss"
	var port uint16 = 80
	if t.tls {
		port = 443
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	name, path := rest[:end], rest[end:]
	name = name[strings.LastIndexByte(name, '@')+1:]
	path, _, _ = strings.Cut(path, "#")
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	t.header, t.path = name, path
	if t.host, t.port, err = authority(name, port); err != nil {
		return t, errNoHost
	}
	if len(h.hosts) == 0 {
		return t, nil
	}
	t.header = h.hosts[0]
	host, number, err := authority(t.header, port)
	switch {
	case err != nil || strings.HasSuffix(t.header, "]"):
		return t, errHostHeader
	case host != t.host || number != t.port:
		return t, errHostMismatch
	}
	return t, nil
}

// authority parses host[:port].
func authority(text string, port uint16) (string, uint16, error) {
	name := text
	if i := strings.LastIndexByte(text, ':'); i >= 0 && strings.IndexByte(text[i:], ']') < 0 {
		n, err := strconv.ParseUint(text[i+1:], 10, 16)
		if err != nil || !digits(text[i+1:]) {
			return "", 0, errNoHost
		}
		name, port = text[:i], uint16(n)
	}
	if strings.Contains(name, ":") && !strings.HasPrefix(name, "[") {
		return "", 0, errNoHost
	}
	host, ok := normalHost(name)
	if !ok {
		return "", 0, errNoHost
	}
	return host, port, nil
}

// hopByHop are the headers that concern one connection only.
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization", "Proxy-Authenticate", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade",
}

// endToEnd returns the headers that are forwarded.
func endToEnd(headers http.Header) http.Header {
	kept := headers.Clone()
	for _, list := range headers["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			kept.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		kept.Del(name)
	}
	return kept
}

// outgoing returns the request to the host, without a body. Its path is the received path, byte for
// byte.
func (h *head) outgoing(t target, r route) *http.Request {
	path, query, found := strings.Cut(t.path, "?")
	to := &url.URL{
		Scheme: "http", Host: hostPort(t.host, t.port), Opaque: path, RawQuery: query, ForceQuery: found && query == "",
	}
	switch {
	case r.upstream != nil && path == "*": // RFC 9112, section 3.2.4
		to.Opaque = "//" + t.header
	case r.upstream != nil:
		to.Opaque = "//" + t.header + path
	case strings.HasPrefix(path, "//"):
		// In Opaque, such a path would be read as a host. net/url sends RawPath unchanged only if
		// it recognizes RawPath as an encoding of Path. For other paths the request contains the
		// whole URI, which names the host, and which every server must accept (RFC 9112, section
		// 3.2.2).
		to.Opaque, to.RawPath = "", path
		to.Path, _ = url.PathUnescape(path)
		if to.EscapedPath() != path {
			to.Opaque = "//" + t.header + path
		}
	}
	out := &http.Request{
		Method: h.Method, URL: to, Host: t.header, Header: endToEnd(h.Header),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: h.ContentLength,
	}
	if out.Header["User-Agent"] == nil {
		out.Header["User-Agent"] = []string{""} // else net/http sends its own
	}
	return out
}

func hostPort(host string, port uint16) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(port))
}
