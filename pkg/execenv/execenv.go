// Package execenv knows the environments that commands can run in: which ones
// are configured, how each is reached, and one shared connection to each.
//
//	config, err := execenv.Load(execenv.LoadOptions{Home: home, Getenv: os.Getenv})
//	...
//	set := execenv.Open(config, execenv.Options{SelfExe: self})
//	defer set.Close()
//	env, err := set.Default()
//	...
//	client, err := env.Client(ctx) // connects, or waits for who does already
//
// The configuration comes from the first of these that has one: the
// variables of an environment registry (NoiseVariables), environments.toml in
// the home directory, URLVariable.
//
// The rules are in docs/spec/client.md §4.
package execenv

import (
	"strings"
	"time"

	"codex.internal/pkg/wire/secret"
)

// Names of the environments that no file names.
const (
	LocalID  = "local"  // the built-in one, on this machine
	RemoteID = "remote" // the only one, where a variable names it
)

// Kind says how an environment is reached.
type Kind string

// The kinds of environments.
const (
	Local     Kind = "local"     // a server that is started on this machine
	WebSocket Kind = "websocket" // a server at a URL
	Stdio     Kind = "stdio"     // a program that leads to a server
	Noise     Kind = "noise"     // a server that an environment registry knows
	SSH       Kind = "ssh"       // a server that ssh starts on another machine
)

// reconnects reports whether a lost session is replaced by a new one. A program
// is not started again: it may ask its user for something.
func (k Kind) reconnects() bool { return k == WebSocket || k == Noise }

// Secret is a token. It prints as [redacted]; a conversion to string returns the
// text.
type Secret = secret.Text

// Spec describes one environment. Which fields are set depends on the kind.
type Spec struct {
	ID   string
	Kind Kind
	// Source says what named it: a variable or the path of a file.
	Source string

	URL string // of a WebSocket
	// Token is sent over wss or to a loopback address; to any other, the
	// connection is refused.
	Token Secret
	// TLS is of a wss URL, read again for each session.
	TLS TLSFiles
	// ConnectTimeout and InitializeTimeout bound the two parts of connecting;
	// 0: the client's defaults.
	ConnectTimeout, InitializeTimeout time.Duration

	Program string   // of Stdio
	Args    []string // without the program's name
	Env     []string // NAME=VALUE, beside this program's environment
	Dir     string   // absolute; empty: this program's

	Registry Registry // of Noise
	Host     SSHHost  // of SSH
}

// Registry says how a Noise environment is found.
type Registry struct {
	URL           string
	EnvironmentID string
	Token         Secret
	TokenFile     string // has the token, if there is no Token; read for each session
	AccountID     string // may be empty
}

// Address tells where an environment is without what may be secret: of a URL
// neither user nor query, of a program no arguments.
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

// redact takes user, query and fragment out of a URL, also out of one that
// does not parse.
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
	// Default is the id of the default environment; empty: there is none.
	Default string
	// Environments have ids of their own.
	Environments []Spec
	// Source says what decided: a variable, the path of a file, or neither,
	// which is empty.
	Source string
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

// IDs returns every id, the default's first.
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
