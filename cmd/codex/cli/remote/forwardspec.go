package remote

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
)

// endpoint is a host and a port, or the path of a Unix socket.
type endpoint struct {
	host string // "": this machine or the server
	port uint16
	path string
}

func (e endpoint) String() string {
	if e.path != "" {
		return e.path
	}
	host := e.host
	if host == "" {
		host = "localhost"
	}
	return net.JoinHostPort(host, strconv.Itoa(int(e.port)))
}

func (e endpoint) target() execclient.TunnelTarget {
	return execclient.TunnelTarget{Host: e.host, Port: e.port, Path: e.path}
}

// forwarding is a port on one side whose connections lead to an endpoint on the other side.
type forwarding struct {
	listen endpoint
	to     endpoint
	text   string // the text that the user typed
}

// parseForwarding parses PORT, LISTEN:PORT, LISTEN:HOST:PORT or BIND:LISTEN:HOST:PORT.
// HOST:PORT may be the path of a Unix socket. IPv6 addresses are in brackets.
func parseForwarding(option, text string) (f forwarding, err error) {
	f.text = text
	wrong := func() error {
		return cmdutil.Usagef("%s: %q is not PORT, PORT:PORT, PORT:HOST:PORT or ADDRESS:PORT:HOST:PORT, with ports up to 65535", option, text)
	}
	listen := text
	if at := strings.Index(text, ":/"); at >= 0 {
		listen, f.to.path = text[:at], text[at+1:]
	}
	fields, ok := splitColons(listen)
	if !ok {
		return f, wrong()
	}
	if f.to.path == "" && len(fields) > 1 {
		last := len(fields) - 1
		port, ok := parsePort(fields[last])
		switch {
		case !ok || port == 0:
			return f, wrong()
		case len(fields) > 2:
			f.to.host = fields[last-1]
			fields = fields[:last-1]
		default:
			fields = fields[:last]
		}
		f.to.port = port
	}
	if len(fields) > 2 {
		return f, wrong()
	}
	if f.listen.port, ok = parsePort(fields[len(fields)-1]); !ok {
		return f, wrong()
	}
	if len(fields) == 2 {
		f.listen.host = fields[0]
		if !isBindAddress(f.listen.host) {
			return f, wrong()
		}
	}
	if f.to == (endpoint{}) {
		if f.listen.port == 0 {
			return f, cmdutil.Usagef("%s: port 0 needs the port that it leads to, as in 0:8080", option)
		}
		f.to.port = f.listen.port
	}
	return f, nil
}

// isBindAddress reports whether a host is an address, * or localhost.
func isBindAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || host == "*" || host == "localhost"
}

// parseEndpoint parses HOST:PORT or the path of a Unix socket.
func parseEndpoint(option, text string) (endpoint, error) {
	if strings.HasPrefix(text, "/") {
		return endpoint{path: text}, nil
	}
	fields, ok := splitColons(text)
	if ok && len(fields) == 2 {
		if port, ok := parsePort(fields[1]); ok && port != 0 && fields[0] != "" {
			return endpoint{host: fields[0], port: port}, nil
		}
	}
	return endpoint{}, cmdutil.Usagef("%s: %q is not HOST:PORT, with a port up to 65535, or the path of a socket", option, text)
}

// parseListen parses PORT or ADDRESS:PORT.
func parseListen(option, text string) (endpoint, error) {
	fields, ok := splitColons(text)
	if ok && len(fields) <= 2 {
		port, ok := parsePort(fields[len(fields)-1])
		if ok && (len(fields) == 1 || isBindAddress(fields[0])) {
			e := endpoint{port: port}
			if len(fields) == 2 {
				e.host = fields[0]
			}
			return e, nil
		}
	}
	return endpoint{}, cmdutil.Usagef("%s: %q is not PORT or ADDRESS:PORT, with a port up to 65535", option, text)
}

// splitColons splits text at colons outside of brackets, and removes the brackets.
func splitColons(text string) (fields []string, ok bool) {
	for {
		field, rest := text, ""
		if strings.HasPrefix(text, "[") {
			end := strings.IndexByte(text, ']')
			if end < 0 || end+1 < len(text) && text[end+1] != ':' {
				return nil, false
			}
			field, rest = text[1:end], text[end+1:]
		} else if colon := strings.IndexByte(text, ':'); colon >= 0 {
			field, rest = text[:colon], text[colon:]
		}
		fields = append(fields, field)
		if rest == "" {
			return fields, true
		}
		text = rest[1:]
	}
}

func parsePort(text string) (uint16, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	return uint16(n), err == nil && text[0] != '+'
}
