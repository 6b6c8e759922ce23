package execenv

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"codex.internal/pkg/account/home"
	"codex.internal/pkg/wire/websocket"
)

// file is environments.toml.
type file struct {
	Default      *string `toml:"default"`
	IncludeLocal *bool   `toml:"include_local"`
	Environments []entry `toml:"environments"`
}

// entry is one environment in the file. A nil field is missing.
type entry struct {
	ID                *string           `toml:"id"`
	URL               *string           `toml:"url"`
	BearerToken       *string           `toml:"auth_bearer_token"`
	CA                *string           `toml:"ca"`
	ClientCert        *string           `toml:"client_cert"`
	ClientKey         *string           `toml:"client_key"`
	ConnectTimeout    *float64          `toml:"connect_timeout_sec"`
	InitializeTimeout *float64          `toml:"initialize_timeout_sec"`
	Program           *string           `toml:"program"`
	Args              []string          `toml:"args"`
	Env               map[string]string `toml:"env"`
	Dir               *string           `toml:"cwd"`
	Rendezvous        *string           `toml:"rendezvous"`
	EnvironmentID     *string           `toml:"environment_id"`
	TokenFile         *string           `toml:"token_file"`
	SSH               *string           `toml:"ssh"`
	SSHArgs           []string          `toml:"ssh_args"`
	Codex             *string           `toml:"codex"`
}

// parseFile parses the text of environments.toml. Relative directories in it are relative to
// the home directory dir.
func parseFile(text []byte, path, dir string) (Config, error) {
	f, err := decodeFile(text)
	if err != nil {
		return Config{}, invalid("failed to parse environment config `%s`: %v", path, err)
	}
	c := Config{Source: path}
	if f.IncludeLocal == nil || *f.IncludeLocal {
		c.Environments = append(c.Environments, Spec{ID: LocalID, Kind: Local, Source: "built in"})
		c.Default = LocalID
	}
	seen := make(map[string]bool, len(f.Environments))
	for _, e := range f.Environments {
		s, err := e.spec(dir)
		if err != nil {
			return Config{}, err
		}
		if seen[s.ID] {
			return Config{}, invalid("environment id `%s` is duplicated", s.ID)
		}
		seen[s.ID] = true
		s.Source = path
		c.Environments = append(c.Environments, s)
	}
	if f.Default == nil {
		return c, nil
	}
	c.Default = strings.TrimSpace(*f.Default)
	switch _, ok := c.Find(c.Default); {
	case c.Default == "":
		return Config{}, invalid("default environment id cannot be empty")
	case strings.EqualFold(c.Default, "none"):
		c.Default = ""
	case !ok:
		return Config{}, invalid("default environment `%s` is not configured", c.Default)
	}
	return c, nil
}

// decodeFile decodes the file without checking the values.
func decodeFile(text []byte) (file, error) {
	var f file
	var shape struct {
		Environments any `toml:"environments"`
	}
	if err := home.DecodeTOML(text, &f, true); err != nil {
		return f, err
	}
	if err := home.DecodeTOML(text, &shape, false); err != nil {
		return f, err
	}
	// The decoder accepts [environments] as an empty array.
	if _, isArray := shape.Environments.([]any); shape.Environments != nil && !isArray {
		return f, errors.New("`environments` must be an array of tables: write [[environments]]")
	}
	for i, e := range f.Environments {
		if e.ID == nil {
			return f, fmt.Errorf("missing field `id` in environment %d", i+1)
		}
		for name, v := range map[string]*float64{"connect_timeout_sec": e.ConnectTimeout, "initialize_timeout_sec": e.InitializeTimeout} {
			if v != nil && (math.IsNaN(*v) || *v < 0 || *v > maxSeconds) {
				return f, fmt.Errorf("%s of environment %d must be a number of seconds from 0 to %.0f", name, i+1, maxSeconds)
			}
		}
	}
	return f, nil
}

// spec validates an entry. The order of the checks equals Codex CLI's.
func (e entry) spec(dir string) (Spec, error) {
	s := Spec{ID: *e.ID, ConnectTimeout: timeout(e.ConnectTimeout), InitializeTimeout: timeout(e.InitializeTimeout)}
	if err := checkID(s.ID); err != nil {
		return s, err
	}
	if own, ok := e.connects(); ok {
		e = own
	}
	if err := e.checkKind(s.ID); err != nil {
		return s, err
	}
	switch {
	case e.Rendezvous != nil:
		return e.rendezvous(s, dir)
	case e.SSH != nil:
		return e.ssh(s, dir)
	case e.Program == nil && (e.Args != nil || e.Env != nil || e.Dir != nil):
		return s, invalid("environment `%s` args, env, and cwd require program", s.ID)
	case e.URL == nil && e.ConnectTimeout != nil:
		return s, invalid("environment `%s` connect_timeout_sec requires url", s.ID)
	case e.URL == nil && e.BearerToken != nil:
		return s, invalid("environment `%s` auth_bearer_token requires url", s.ID)
	case (e.URL == nil) == (e.Program == nil):
		return s, invalid("environment `%s` must set exactly one of url or program", s.ID)
	case e.Program != nil && (e.CA != nil || e.ClientCert != nil || e.ClientKey != nil):
		return s, invalid("environment `%s` ca, client_cert, and client_key require url", s.ID)
	case e.URL != nil:
		return e.webSocket(s, dir)
	default:
		return e.stdio(s, dir)
	}
}

// checkKind validates the members that Codex CLI does not have.
func (e entry) checkKind(id string) error {
	own, all := 0, 0
	for i, is := range []bool{e.Rendezvous != nil, e.SSH != nil, e.URL != nil, e.Program != nil} {
		if is {
			all++
			if i < 2 {
				own++
			}
		}
	}
	switch {
	case own > 0 && all > 1:
		return invalid("environment `%s` must set exactly one of url, program, rendezvous or ssh", id)
	case e.Rendezvous == nil && e.EnvironmentID != nil:
		return invalid("environment `%s` environment_id requires rendezvous", id)
	case e.Rendezvous == nil && e.URL == nil && e.TokenFile != nil:
		return invalid("environment `%s` token_file requires url or rendezvous", id)
	case e.BearerToken != nil && e.TokenFile != nil:
		return invalid("environment `%s` must set at most one of auth_bearer_token and token_file", id)
	case e.SSH == nil && (e.SSHArgs != nil || e.Codex != nil):
		return invalid("environment `%s` ssh_args and codex require ssh", id)
	case own > 0 && (e.BearerToken != nil || e.ClientCert != nil || e.ClientKey != nil || e.ConnectTimeout != nil):
		return invalid("environment `%s` auth_bearer_token, client_cert, client_key, and connect_timeout_sec require url", id)
	case e.SSH != nil && e.CA != nil:
		return invalid("environment `%s` ca requires url or rendezvous", id)
	case own > 0 && (e.Args != nil || e.Env != nil || e.Dir != nil):
		return invalid("environment `%s` args, env, and cwd require program", id)
	}
	return nil
}

// rendezvous converts an entry of a rendezvous service. Its token is not read yet.
func (e entry) rendezvous(s Spec, dir string) (Spec, error) {
	s.Kind = Noise
	s.Registry.URL, s.Registry.EnvironmentID = strings.TrimSpace(*e.Rendezvous), s.ID
	if e.EnvironmentID != nil {
		s.Registry.EnvironmentID = strings.TrimSpace(*e.EnvironmentID)
	}
	s.Registry.TokenFile = absolute(e.TokenFile, dir)
	s.Registry.CA = absolute(e.CA, dir)
	u, err := url.Parse(s.Registry.URL)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return s, invalid("environment `%s` rendezvous must be an https:// URL", s.ID)
	case s.Registry.EnvironmentID == "":
		return s, invalid("environment `%s` environment_id cannot be empty", s.ID)
	case e.CA != nil && (s.Registry.CA == "" || u.Scheme != "https"):
		return s, invalid("environment `%s` ca requires an https:// URL, and cannot be empty", s.ID)
	case s.Registry.TokenFile == "":
		return s, invalid("environment `%s` rendezvous requires token_file", s.ID)
	}
	return s, nil
}

// absolute returns the absolute path that a member means; empty: it is missing or blank.
func absolute(member *string, dir string) string {
	if member == nil {
		return ""
	}
	path := strings.TrimSpace(*member)
	if path != "" && !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return path
}

// ssh converts an entry of a machine that is reached by ssh.
func (e entry) ssh(s Spec, dir string) (Spec, error) {
	s.Kind, s.Host = SSH, SSHHost{Host: strings.TrimSpace(*e.SSH), Args: e.SSHArgs, Sockets: SocketDir(dir)}
	if e.Codex != nil {
		s.Host.Codex = strings.TrimSpace(*e.Codex)
	}
	switch {
	case s.Host.Host == "":
		return s, invalid("environment `%s` ssh cannot be empty", s.ID)
	case strings.HasPrefix(s.Host.Host, "-") || strings.ContainsFunc(s.Host.Host, unicode.IsSpace):
		return s, invalid("environment `%s` ssh must be a host, as in USER@HOST; options belong into ssh_args", s.ID)
	case e.Codex != nil && !strings.HasPrefix(s.Host.Codex, "/") && !strings.HasPrefix(s.Host.Codex, "~/"):
		return s, invalid("environment `%s` codex must be an absolute path of that machine, or begin with ~/", s.ID)
	}
	return s, nil
}

func checkID(id string) error {
	trimmed := strings.TrimSpace(id)
	switch {
	case trimmed == "":
		return invalid("environment id cannot be empty")
	case trimmed != id:
		return invalid("environment id `%s` must not contain surrounding whitespace", id)
	case id == LocalID || strings.EqualFold(id, "none"):
		return invalid("environment id `%s` is reserved", id)
	case len(id) > maxIDBytes:
		return invalid("environment id `%s` cannot be longer than %d characters", id, maxIDBytes)
	}
	for _, c := range id {
		if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return invalid("environment id `%s` must contain only ASCII letters, numbers, '-' or '_'", id)
		}
	}
	return nil
}

// timeout converts seconds; nil gives 0, the default. 0 seconds gives 1 ns, because a zero
// Duration means the default.
func timeout(seconds *float64) time.Duration {
	if seconds == nil {
		return 0
	}
	return max(time.Duration(*seconds*float64(time.Second)), 1)
}

func (e entry) webSocket(s Spec, dir string) (Spec, error) {
	s.Kind, s.URL = WebSocket, strings.TrimSpace(*e.URL)
	if err := e.tlsFiles(&s, dir); err != nil {
		return s, err
	}
	if e.BearerToken != nil {
		s.Token = Secret(strings.TrimSpace(*e.BearerToken))
	}
	if s.TokenFile = absolute(e.TokenFile, dir); e.TokenFile != nil && s.TokenFile == "" {
		return s, invalid("environment `%s` token_file cannot be empty", s.ID)
	}
	if s.URL == "" {
		return s, invalid("environment url cannot be empty")
	}
	if _, local := websocket.SocketPath(s.URL); local {
		return s, nil
	}
	if !strings.HasPrefix(s.URL, "ws://") && !strings.HasPrefix(s.URL, "wss://") {
		return s, invalid("environment url `%s` must use ws:// or wss://", redact(s.URL))
	}
	u, err := url.Parse(s.URL)
	if err == nil && u.Hostname() == "" {
		err = errors.New("it has no host")
	}
	if err != nil {
		// The library's error contains the URL, which may contain secrets.
		var quoted *url.Error
		if errors.As(err, &quoted) {
			err = quoted.Err
		}
		return s, invalid("environment url `%s` is invalid: %v", redact(s.URL), err)
	}
	return s, nil
}

// tlsFiles sets the files for a wss URL.
func (e entry) tlsFiles(s *Spec, dir string) error {
	for to, from := range map[*string]*string{&s.TLS.CA: e.CA, &s.TLS.ClientCert: e.ClientCert, &s.TLS.ClientKey: e.ClientKey} {
		if from == nil {
			continue
		}
		if *to = strings.TrimSpace(*from); *to == "" {
			return invalid("environment `%s` ca, client_cert, and client_key cannot be empty", s.ID)
		}
	}
	s.TLS = s.TLS.below(dir)
	if s.TLS != (TLSFiles{}) && !strings.HasPrefix(s.URL, "wss://") {
		return invalid("environment `%s` ca, client_cert, and client_key require a wss:// url", s.ID)
	}
	if err := s.TLS.check(); err != nil {
		return invalid("environment `%s`: %v", s.ID, err)
	}
	return nil
}

func (e entry) stdio(s Spec, dir string) (Spec, error) {
	s.Kind, s.Program, s.Args = Stdio, strings.TrimSpace(*e.Program), e.Args
	if s.Program == "" {
		return s, invalid("environment `%s` program cannot be empty", s.ID)
	}
	for name, value := range e.Env {
		s.Env = append(s.Env, name+"="+value)
	}
	slices.Sort(s.Env)
	if e.Dir != nil {
		s.Dir = *e.Dir
		if !filepath.IsAbs(s.Dir) {
			s.Dir = filepath.Join(dir, s.Dir)
		}
	}
	return s, nil
}
