package proxybridge

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"codex.internal/pkg/wire/jsonwire"
)

// Variables are the variables that name proxies, in any case.
var Variables = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY", "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY",
	"NPM_CONFIG_HTTP_PROXY", "NPM_CONFIG_HTTPS_PROXY", "NPM_CONFIG_PROXY", "BUNDLE_HTTP_PROXY",
	"BUNDLE_HTTPS_PROXY", "PIP_PROXY", "DOCKER_HTTP_PROXY", "DOCKER_HTTPS_PROXY", "WS_PROXY", "WSS_PROXY",
}

// Endpoint is a proxy of the host: a loopback address or a Unix socket.
type Endpoint struct {
	Host string // as it is written
	Port uint16
	Path string
}

// proxyURL is a URL in parts, so that a rewrite keeps the others.
type proxyURL struct {
	scheme, user, tail string // with "://", with "@", from the path on
	Endpoint
}

// parseProxyURL reads a proxy's URL, whose scheme is optional. ok is false
// unless it leads to a loopback address as Codex CLI spells it.
func parseProxyURL(text string) (u proxyURL, ok bool) {
	rest := strings.TrimSpace(text)
	if i := strings.Index(rest, "://"); i >= 0 {
		u.scheme, rest = rest[:i+3], rest[i+3:]
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest, u.tail = rest[:i], rest[i:]
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		u.user, rest = rest[:i+1], rest[i+1:]
	}
	host, port, found := rest, "", false
	if inner, ok := strings.CutPrefix(rest, "["); ok {
		if host, port, found = strings.Cut(inner, "]"); !found {
			return u, false
		}
		port, found = strings.CutPrefix(port, ":")
	} else {
		host, port, found = strings.Cut(rest, ":")
	}
	u.Host = strings.ToLower(host)
	switch u.Host {
	case "localhost", "127.0.0.1", "::1":
	default:
		return u, false
	}
	if !found || port == "" {
		u.Port = defaultPort(strings.ToLower(u.scheme))
		return u, true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	u.Port = uint16(n)
	return u, err == nil && n != 0
}

func defaultPort(scheme string) uint16 {
	switch {
	case scheme == "https://":
		return 443
	case strings.HasPrefix(scheme, "socks"):
		return 1080
	default:
		return 80
	}
}

// rewrite returns the URL with another host and port.
func (u proxyURL) rewrite(port uint16) string {
	tail := u.tail
	if tail == "/" {
		tail = ""
	}
	return u.scheme + u.user + "127.0.0.1:" + strconv.Itoa(int(port)) + tail
}

// route is where the proxy that a variable names can be reached.
type route struct{ Variable, Socket string }

// Fields lists the members for jsonwire.
func (at *route) Fields(c *jsonwire.Codec) {
	c.Text("env_key", jsonwire.Need, &at.Variable)
	c.Text("uds_path", jsonwire.Need, &at.Socket)
	c.Refuse(at.Variable == "" || at.Socket == "", errRoute)
}

var errRoute = errors.New("a route needs env_key and uds_path")

// parseRoutes reads a route spec: sockets by variable. Without a spec the
// result is nil.
func parseRoutes(text string) (map[string]string, error) {
	if text == "" {
		return nil, nil
	}
	var list []route
	r := jsonwire.NewReader([]byte(text))
	err := r.Struct("a map", jsonwire.FieldsFunc(func(c *jsonwire.Codec) { jsonwire.Structs(c, "routes", 0, &list) }))
	routes := make(map[string]string)
	for _, at := range list {
		routes[at.Variable] = at.Socket
	}
	if err == nil {
		err = r.End()
	}
	if err == nil && len(routes) == 0 {
		err = errors.New("proxy routing spec contained no routes")
	}
	if err != nil {
		return nil, fmt.Errorf("invalid proxy route spec: %w", err)
	}
	return routes, nil
}
