package execenv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"codex.internal/pkg/account/registry"
	"codex.internal/pkg/host/safeopen"
)

// Variables that choose environments.
const (
	// URLVariable has the URL of the only environment, or the word none.
	URLVariable = "CODEX_EXEC_SERVER_URL"
	// TokenVariable has the token for the server at that URL.
	TokenVariable = "CODEX_EXEC_SERVER_CONNECTION_TOKEN"

	registryURLVariable     = "CODEX_EXEC_SERVER_NOISE_REGISTRY_URL"
	registryIDVariable      = "CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID"
	registryTokenVariable   = "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN"
	registryAccountVariable = "CODEX_EXEC_SERVER_NOISE_CHATGPT_ACCOUNT_ID"
)

// NoiseVariables configure an environment of a registry: all or none of them must be set.
var NoiseVariables = []string{registryURLVariable, registryIDVariable, registryTokenVariable}

// FileName is the name of the file of environments.
const FileName = "environments.toml"

// LoadOptions are the inputs of Load.
type LoadOptions struct {
	// Home returns the home directory. It is called only if no variable of a registry is set.
	Home func() (string, error)
	// Getenv returns a variable, empty if it is not set; nil: os.Getenv.
	Getenv func(string) string
	// EnvironmentID, if not empty and not RemoteID, replaces the environment's id in the
	// variables of a registry.
	EnvironmentID string
}

// Load returns the configured environments. An invalid configuration is a
// *registry.ConfigError or an *execclient.ProtocolError, which is in a *FileError if the file
// is invalid.
func Load(o LoadOptions) (Config, error) {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	get := func(name string) string { return strings.TrimSpace(o.Getenv(name)) }
	if c, ok, err := fromRegistry(get, o.EnvironmentID); ok {
		return c, err
	}
	home, err := o.Home()
	if err != nil {
		return Config{}, err
	}
	path := filepath.Join(home, FileName)
	text, err := safeopen.ReadFile(path, maxFileBytes)
	switch {
	case err == nil:
		c, err := parseFile(text, path, home)
		if err != nil {
			return Config{}, &FileError{Path: path, Err: err}
		}
		c.Warning = exposed(c, path)
		return c, nil
	case !errors.Is(err, fs.ErrNotExist):
		return Config{}, invalid("failed to read environment config `%s`: %v", path, cause(err))
	}
	return fromURL(get), nil
}

// exposed returns a warning if other users can read a token in the file.
func exposed(c Config, path string) string {
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o044 == 0 ||
		!slices.ContainsFunc(c.Environments, func(s Spec) bool { return s.Token != "" }) {
		return ""
	}
	return fmt.Sprintf("%s has the mode %04o and holds a token: other users can read it; run chmod 600 %s", path, info.Mode().Perm(), path)
}

// fromRegistry returns the configuration of the variables of a registry; false: none is set. A
// non-empty id replaces theirs.
func fromRegistry(get func(string) string, id string) (Config, bool, error) {
	r := Registry{
		URL: get(registryURLVariable), EnvironmentID: get(registryIDVariable),
		Token: Secret(get(registryTokenVariable)), AccountID: get(registryAccountVariable),
	}
	switch {
	case r.URL == "" && r.EnvironmentID == "" && r.Token == "":
		return Config{}, false, nil
	case id == "" || id == RemoteID:
		id = RemoteID
	default:
		r.EnvironmentID = id
	}
	if r.URL == "" || r.EnvironmentID == "" || r.Token == "" {
		v := NoiseVariables
		return Config{}, true, &registry.ConfigError{Message: fmt.Sprintf("Noise environment requires %s, %s, and %s", v[0], v[1], v[2])}
	}
	s := Spec{ID: id, Kind: Noise, Source: registryURLVariable, Registry: r}
	return Config{Default: s.ID, Environments: []Spec{s}, Source: s.Source}, true, nil
}

// fromURL returns the configuration of the URL's variable. The URL is validated when it is
// dialed.
func fromURL(get func(string) string) Config {
	url := get(URLVariable)
	switch {
	case url == "":
		return Config{Default: LocalID, Environments: []Spec{{ID: LocalID, Kind: Local, Source: "built in"}}}
	case strings.EqualFold(url, "none"):
		return Config{Source: URLVariable}
	}
	s := Spec{ID: RemoteID, Kind: WebSocket, Source: URLVariable, URL: url, Token: Secret(get(TokenVariable))}
	return Config{Default: s.ID, Environments: []Spec{s}, Source: s.Source}
}

// cause removes the path from an error whose message already contains it.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
