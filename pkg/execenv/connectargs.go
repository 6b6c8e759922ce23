package execenv

import (
	"slices"
	"strings"

	"codex.internal/pkg/wire/websocket"
)

// connectWords are the first arguments of this program when Codex CLI starts it to reach an
// environment. Codex CLI knows a URL without a certificate, and a program with arguments, and refuses
// a file with any other member. So an environment of another kind is written as this program, with
// the rest as options. This program reads the options instead of starting itself.
var connectWords = []string{"environments", "connect"}

// ConnectArgs returns the arguments with which this program connects its stdin and stdout to an
// environment at a URL, of a rendezvous service or of ssh.
func (s Spec) ConnectArgs() []string {
	args := slices.Clone(connectWords)
	add := func(name, value string) {
		if value != "" {
			args = append(args, "--"+name+"="+value)
		}
	}
	add("url", s.URL)
	add("ca", s.TLS.CA+s.Registry.CA) // one of them is empty; so is one of those for token-file
	add("client-cert", s.TLS.ClientCert)
	add("client-key", s.TLS.ClientKey)
	add("rendezvous", s.Registry.URL)
	add("environment-id", s.Registry.EnvironmentID)
	add("token-file", s.TokenFile+s.Registry.TokenFile)
	add("ssh", s.Host.Host)
	add("codex", s.Host.Codex)
	for _, arg := range s.Host.Args {
		args = append(args, "--ssh-arg="+arg)
	}
	return args
}

// connects returns the entry that the arguments of a program describe; false: they are not those of
// ConnectArgs, or the program needs an environment or a directory of its own, and is started.
func (e entry) connects() (entry, bool) {
	n := len(connectWords)
	if e.Program == nil || e.Env != nil || e.Dir != nil || len(e.Args) <= n || !slices.Equal(e.Args[:n], connectWords) {
		return entry{}, false
	}
	own := entry{ID: e.ID, InitializeTimeout: e.InitializeTimeout}
	to := map[string]**string{
		"url": &own.URL, "ca": &own.CA, "client-cert": &own.ClientCert, "client-key": &own.ClientKey, "rendezvous": &own.Rendezvous,
		"environment-id": &own.EnvironmentID, "token-file": &own.TokenFile, "ssh": &own.SSH, "codex": &own.Codex,
	}
	for _, arg := range e.Args[n:] {
		name, value, ok := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		switch {
		case ok && name == "ssh-arg":
			own.SSHArgs = append(own.SSHArgs, value)
		case ok && to[name] != nil:
			*to[name] = &value
		default:
			return entry{}, false
		}
	}
	if (own.URL != nil || own.Rendezvous != nil || own.SSH != nil) && e.URL == nil && !e.unknownToCodexCLI() {
		return own, true
	}
	return entry{}, false
}

// unknownToCodexCLI reports whether a release of Codex CLI refuses the whole file for this entry,
// except for auth_bearer_token, which it knows since 0.169.0.
func (e entry) unknownToCodexCLI() bool {
	for _, member := range []*string{e.CA, e.ClientCert, e.ClientKey, e.Rendezvous, e.EnvironmentID, e.TokenFile, e.SSH, e.Codex} {
		if member != nil {
			return true
		}
	}
	if e.SSHArgs != nil {
		return true
	}
	if e.URL == nil {
		return false
	}
	_, local := websocket.SocketPath(strings.TrimSpace(*e.URL))
	return local
}
