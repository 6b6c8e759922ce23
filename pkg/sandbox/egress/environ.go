package egress

import (
	"slices"
	"strings"
)

// These are the variables of a process with a proxy, as Codex CLI sets them.
var (
	webVariables = []string{
		"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY",
		"npm_config_http_proxy", "npm_config_https_proxy", "npm_config_proxy", "NPM_CONFIG_HTTP_PROXY",
		"NPM_CONFIG_HTTPS_PROXY", "NPM_CONFIG_PROXY", "BUNDLE_HTTP_PROXY", "BUNDLE_HTTPS_PROXY", "PIP_PROXY",
		"DOCKER_HTTP_PROXY", "DOCKER_HTTPS_PROXY", "WS_PROXY", "WSS_PROXY", "ws_proxy", "wss_proxy",
	}
	allVariables    = []string{"ALL_PROXY", "all_proxy", "FTP_PROXY", "ftp_proxy"}
	exceptVariables = []string{"NO_PROXY", "no_proxy", "npm_config_noproxy", "NPM_CONFIG_NOPROXY", "BUNDLE_NO_PROXY"}
	otherVariables  = []string{
		"CODEX_NETWORK_PROXY_ACTIVE=1", "NODE_USE_ENV_PROXY=1", "ELECTRON_GET_USE_PROXY=true",
	}
	// removedVariables configure an outer proxy, if this server itself runs behind one.
	removedVariables = []string{
		"CODEX_NETWORK_PROXY_ATTRIBUTION", "CODEX_NETWORK_PROXY_BROKERED_CREDENTIALS",
		"CODEX_NETWORK_PROXY_CREDENTIAL_BROKER_ACTIVE",
	}
)

// localNetworks are reached without the proxy if the policy has LocalBinding.
const localNetworks = "localhost,127.0.0.1,::1,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16"

// Environ returns a copy of an environment (NAME=VALUE) that points its process at
// the proxy. Proxy variables in env are replaced, in any case of their letters:
// some programs read Http_Proxy like http_proxy, and would bypass this proxy.
func (x *Proxy) Environ(env []string) []string {
	web := "http://" + x.web.Addr().String()
	all, except, local := web, "", "0"
	if x.socks != nil {
		all = "socks5h://" + x.socks.Addr().String()
	}
	if x.policy.config.LocalBinding && x.ceiling.allPrivate() {
		except, local = localNetworks, "1"
	}
	var set []string
	add := func(names []string, value string) {
		for _, name := range names {
			set = append(set, name+"="+value)
		}
	}
	add(webVariables, web)
	add(allVariables, all)
	add(exceptVariables, except)
	x.secrets.environ(add)
	set = append(append(set, otherVariables...), "CODEX_NETWORK_ALLOW_LOCAL_BINDING="+local)

	replaced := make(map[string]bool)
	for _, kv := range set {
		name, _, _ := strings.Cut(kv, "=")
		replaced[lower(name)] = true
	}
	for _, name := range removedVariables {
		replaced[lower(name)] = true
	}
	kept := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return replaced[lower(name)]
	})
	return append(kept, set...)
}

// Ports returns the proxy's ports on 127.0.0.1: the port of the HTTP proxy and the port of the
// SOCKS5 proxy, if there is one.
func (x *Proxy) Ports() []uint16 {
	ports := []uint16{portOf(x.web)}
	if x.socks != nil {
		ports = append(ports, portOf(x.socks))
	}
	return ports
}
