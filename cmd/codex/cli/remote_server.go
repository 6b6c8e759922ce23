package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"codex.internal/pkg/account/codexhome"
	"codex.internal/pkg/account/registry"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execenv"
	"github.com/urfave/cli/v2"
)

func urlFlag() cli.Flag {
	return &cli.StringFlag{Name: "url", Usage: "the server's `URL`: ws://HOST:PORT, wss://HOST:PORT or unix:///PATH"}
}

func envFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "env",
		Usage: "the environment with that `ID`; see codex environments list. " +
			"Where CODEX_EXEC_SERVER_NOISE_REGISTRY_URL is set, one of that registry's",
	}
}

// serverFlags choose the server, for commands whose --env means nothing else.
func serverFlags(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{urlFlag(), envFlag()}, more...)
}

// typed returns what was given for a flag, after the command or before it;
// empty: nothing. A value with an equals sign sets a variable, where --env does
// that too.
func typed(c *cli.Context, name string) (string, error) {
	for _, at := range c.Lineage() {
		var values []string
		switch v := at.Value(name).(type) {
		case string:
			values = []string{v}
		case cli.StringSlice:
			values = v.Value()
		}
		values = slices.DeleteFunc(values, func(v string) bool { return v == "" || name == "env" && strings.Contains(v, "=") })
		switch len(values) {
		case 0:
		case 1:
			return values[0], nil
		default:
			return "", usagef("--%s: %s and %s cannot both be the environment; to set a variable write NAME=VALUE", name, values[0], values[1])
		}
	}
	return "", nil
}

// chooseServer returns the environment that a command works in: --url, or
// --env, or the default.
func chooseServer(c *cli.Context) (execenv.Spec, error) {
	url, err := typed(c, "url")
	if err != nil {
		return execenv.Spec{}, err
	}
	id, err := typed(c, "env")
	if err != nil {
		return execenv.Spec{}, err
	}
	if url != "" {
		return execenv.Spec{ID: execenv.RemoteID, Kind: execenv.WebSocket, Source: "--url", URL: url, Token: connectionToken()}, nil
	}
	config, err := loadEnvironments(id)
	if err != nil {
		return execenv.Spec{}, err
	}
	if id == "" {
		id = config.Default
		if config.Source == "" {
			fmt.Fprintf(c.App.ErrWriter, "codex: no server is named by --url, --env, %s or %s: this is the local environment\n", execenv.FileName, execenv.URLVariable)
		}
	}
	if id == "" {
		return execenv.Spec{}, usagef("which environment? %s; give --env ID or --url ws://HOST:PORT", noDefault(config))
	}
	s, ok := config.Find(id)
	if !ok {
		return s, advised(unknownEnvironment(config, id), "for one of a codex rendezvous set "+execenv.NoiseVariables[0]+" and "+execenv.NoiseVariables[2])
	}
	return s, nil
}

// loadEnvironments finds out which environments there are; an id may be one of
// a registry.
func loadEnvironments(id string) (execenv.Config, error) {
	config, err := execenv.Load(execenv.LoadOptions{Home: codexhome.Find, EnvironmentID: id})
	var file *execenv.FileError
	if errors.As(err, &file) && !strings.Contains(err.Error(), file.Path) {
		return config, advised(err, "the file is "+file.Path)
	}
	var incomplete *registry.ConfigError
	if !errors.As(err, &incomplete) {
		return config, err
	}
	missing := slices.DeleteFunc(slices.Clone(execenv.NoiseVariables), func(name string) bool {
		return strings.TrimSpace(os.Getenv(name)) != "" || id != "" && name == execenv.NoiseVariables[1]
	})
	if len(missing) == 0 {
		return config, err
	}
	advice := "not set: " + strings.Join(missing, ", ")
	if id == "" && slices.Contains(missing, execenv.NoiseVariables[1]) {
		advice += "; codex remote --env ID does without " + execenv.NoiseVariables[1]
	}
	return config, advised(err, advice)
}

// unknownEnvironment says that there is no environment with an id.
func unknownEnvironment(config execenv.Config, id string) error {
	return usagef("%v in %s; there are: %s", &execenv.UnknownError{ID: id}, decidedBy(config), strings.Join(config.IDs(), ", "))
}

// noDefault says why there is no default environment.
func noDefault(config execenv.Config) string {
	if config.Source == execenv.URLVariable {
		return execenv.URLVariable + " is none"
	}
	return config.Source + " has no default"
}

// decidedBy names what says which environments there are.
func decidedBy(config execenv.Config) string {
	if config.Source == "" {
		return "the built-in ones, as there is neither " + execenv.FileName + " nor " + execenv.URLVariable
	}
	return config.Source
}

// connect opens a session at the server that the command names.
func connect(ctx context.Context, c *cli.Context) (*execclient.Client, error) {
	s, err := chooseServer(c)
	if err != nil {
		return nil, err
	}
	return connectTo(ctx, c, s)
}

func connectTo(ctx context.Context, c *cli.Context, s execenv.Spec) (*execclient.Client, error) {
	client, err := execenv.Connect(ctx, s, execenv.Options{
		ClientName: "codex-remote", SelfExe: selfExe(), Stderr: childStderr(c.App.ErrWriter), OnStateChange: onStateChange(ctx),
	})
	if err != nil && s.Source != "--url" && !errors.Is(err, context.Canceled) {
		err = fmt.Errorf("environment `%s` of %s: %w", s.ID, s.Source, err)
	}
	if err != nil {
		return nil, unreachable(err, s.Kind)
	}
	return client, nil
}
