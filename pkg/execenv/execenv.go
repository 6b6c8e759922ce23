// Package execenv has the environments in which commands can run: their configuration, and
// one shared connection to each.
//
//	config, err := execenv.Load(execenv.LoadOptions{Home: home, Getenv: os.Getenv})
//	...
//	set := execenv.Open(config, execenv.Options{SelfExe: self})
//	defer set.Close()
//	env, err := set.Default()
//	...
//	client, err := env.Client(ctx) // connects, or waits for the attempt of another caller
//
// The first of these that is set has the configuration: the variables of an environment
// registry (NoiseVariables), environments.toml in the home directory, URLVariable.
//
// The rules are in docs/spec/client.md §4.
package execenv

import (
	"strings"
	"time"

	"codex.internal/pkg/wire/secret"
)

// The ids of environments that are not in a file.
const (
	LocalID  = "local"  // the server on this machine
	RemoteID = "remote" // the environment of a variable
)

// Kind is the way in which an environment is reached.
type Kind string

// The kinds of environments.
const (
	Local     Kind = "local"     // a server started on this machine
	WebSocket Kind = "websocket" // a server at a URL
	Stdio     Kind = "stdio"     // a program that connects to a server
	Noise     Kind = "noise"     // a server in an environment registry
	SSH       Kind = "ssh"       // a server started by ssh on another machine
)

// reconnects reports whether a lost session is replaced by a new one. A program is not started
// again, because it may ask its user a question.
func (k Kind) reconnects() bool { return k == WebSocket || k == Noise }

// Secret is a token. It prints as [redacted]; a conversion to string returns the token.
type Secret = secret.Text

// Spec is the configuration of one environment. Its kind determines which fields are set.
type Spec struct {
	ID   string
	Kind Kind
	// Source is where the environment is configured: a variable or the path of a file.
	Source string

	URL string // for WebSocket
	// Token is sent over wss or to a loopback address. Connecting to any other address fails.
	Token Secret
	// TokenFile is the absolute path of a file with the token, which is read for each session; empty: Token.
	TokenFile string
	// TLS has the files for a wss URL. They are read for each session.
	TLS TLSFiles
	// ConnectTimeout and InitializeTimeout bound the two steps of connecting; 0: the client's
	// defaults.
	ConnectTimeout, InitializeTimeout time.Duration

	Program string   // for Stdio
	Args    []string // without the program's name
	Env     []string // NAME=VALUE, added to this program's environment
	Dir     string   // absolute; empty: this program's

	Registry Registry // for Noise
	Host     SSHHost  // for SSH
}

// Registry is the registry entry of a Noise environment.
type Registry struct {
	URL           string
	EnvironmentID string
	Token         Secret
	TokenFile     string // has the token if Token is empty; read for each session
	AccountID     string // may be empty
	CA            string // a PEM file with the authorities to trust, as in TLSFiles; empty: see package httpclient
}

// Address returns a printable address without secrets: a URL without user and query, or a
// program without arguments.
func (s Spec) Address() string {
	switch s.Kind {
	case WebSocket:
		return redact(s.URL)
	case Noise:
		return redact(s.Registry.URL) + " (" + s.Registry.EnvironmentID + ")"
	case SSH:
		return s.Host.Host
	case Stdio:
		if len(s.Args) > 0 {
			return s.Program + " ..."
		}
		return s.Program
	default:
		return "this machine"
	}
}

// redact removes user, query and fragment from a URL, even from an invalid one.
func redact(url string) string {
	if i := strings.IndexAny(url, "?#"); i >= 0 {
		url = url[:i]
	}
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		scheme, rest = "", url
	}
	authority, path, hasPath := strings.Cut(rest, "/")
	if i := strings.LastIndex(authority, "@"); i >= 0 {
		authority = authority[i+1:]
	}
	if ok {
		authority = scheme + "://" + authority
	}
	if hasPath {
		authority += "/" + path
	}
	return authority
}

// Config is a valid set of environments.
type Config struct {
	// Default is the id of the default environment; empty: no default.
	Default string
	// The ids of the environments are unique.
	Environments []Spec
	// Source is where the configuration was found: a variable or the path of a file; empty:
	// nowhere.
	Source string
	// Warning is about the file; empty: none.
	Warning string
}

// Find returns the environment with an id.
func (c Config) Find(id string) (Spec, bool) {
	for _, s := range c.Environments {
		if s.ID == id {
			return s, true
		}
	}
	return Spec{}, false
}

// IDs returns all ids, beginning with the default's.
func (c Config) IDs() []string {
	var ids []string
	for _, s := range c.Environments {
		if s.ID == c.Default {
			ids = append([]string{s.ID}, ids...)
		} else {
			ids = append(ids, s.ID)
		}
	}
	return ids
}
