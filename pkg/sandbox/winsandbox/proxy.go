package winsandbox

import (
	"slices"
	"strconv"
	"strings"
)

// Mode selects what a launch does with the firewall rules of the set-up.
type Mode int

// The modes.
const (
	// Reconcile adapts them to the environment.
	Reconcile Mode = iota
	// Preserve does not change them, if there are any.
	Preserve
)

// Identity selects which of the two sandbox users a command runs as.
type Identity int

// The identities.
const (
	// Online is the user whose traffic the firewall permits.
	Online Identity = iota
	// Offline is the user who can reach at most proxies on this machine.
	Offline
)

// IdentityFor chooses the user: offline when a proxy is enforced or the
// network is restricted.
func IdentityFor(proxyEnforced, networkRestricted bool) Identity {
	if proxyEnforced || networkRestricted {
		return Offline
	}
	return Online
}

// ProxySettings are the firewall rules of the offline user: the TCP ports on
// loopback addresses that are open, ascending, and whether servers may listen.
type ProxySettings struct {
	Ports             []uint16
	AllowLocalBinding bool
}

// Equal compares the ports as lists, in order.
func (s ProxySettings) Equal(o ProxySettings) bool {
	return slices.Equal(s.Ports, o.Ports) && s.AllowLocalBinding == o.AllowLocalBinding
}

// The variables that settings are read from. The URLs' names count in upper
// and lower case.
const (
	portsVariable   = "CODEX_WINDOWS_SANDBOX_PROXY_PORTS"
	bindingVariable = "CODEX_NETWORK_ALLOW_LOCAL_BINDING"
)

var urlVariables = []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "WS_PROXY", "WSS_PROXY"}

// SettingsFromEnv returns the settings of an environment; none for the online
// identity.
func SettingsFromEnv(env map[string]string, id Identity) ProxySettings {
	if id == Online {
		return ProxySettings{}
	}
	var ports []uint16
	for _, name := range urlVariables {
		for _, spelled := range []string{name, strings.ToLower(name)} {
			if port := loopbackPort(env[spelled]); port != 0 {
				ports = append(ports, port)
			}
		}
	}
	for text := range strings.SplitSeq(env[portsVariable], ",") {
		if port := parsePort(strings.TrimSpace(text)); port != 0 {
			ports = append(ports, port)
		}
	}
	slices.Sort(ports)
	return ProxySettings{Ports: slices.Compact(ports), AllowLocalBinding: env[bindingVariable] == "1"}
}

// DesiredSettings returns the settings that a launch needs: with Preserve the
// settings of a marker of the current version, otherwise the environment's. The
// marker may be nil.
func DesiredSettings(mode Mode, marker *Marker, env map[string]string, id Identity) ProxySettings {
	if mode == Preserve && marker.Current() {
		return marker.Settings()
	}
	return SettingsFromEnv(env, id)
}

// loopbackPort returns the port of a proxy on a loopback address, or 0 for
// anything else. The port must be explicit.
func loopbackPort(url string) uint16 {
	_, rest, ok := strings.Cut(strings.TrimSpace(url), "://")
	if !ok {
		return 0
	}
	authority, _, _ := strings.Cut(rest, "/")
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	if port, ok := strings.CutPrefix(authority, "[::1]:"); ok {
		return parsePort(port)
	}
	i := strings.LastIndexByte(authority, ':')
	if i < 0 {
		return 0
	}
	if host := authority[:i]; host != "127.0.0.1" && !isLocalhost(host) {
		return 0
	}
	return parsePort(authority[i+1:])
}

// isLocalhost compares letters of ASCII only, unlike strings.EqualFold.
func isLocalhost(host string) bool {
	const name = "localhost"
	return len(host) == len(name) && strings.EqualFold(host, name)
}

// parsePort returns 0 for an invalid port. Codex CLI accepts a plus sign.
func parsePort(text string) uint16 {
	port, err := strconv.ParseUint(strings.TrimPrefix(text, "+"), 10, 16)
	if err != nil {
		return 0
	}
	return uint16(port)
}
