package environments

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/account/home"
	"codex.internal/pkg/account/registry"
	"codex.internal/pkg/execenv"
	"codex.internal/pkg/host/terminal"
)

// Load returns the configured environments. id may name an environment that only a registry knows.
func Load(id string) (execenv.Config, error) {
	config, err := execenv.Load(execenv.LoadOptions{Home: home.Find, EnvironmentID: id})
	var file *execenv.FileError
	if errors.As(err, &file) && !strings.Contains(err.Error(), file.Path) {
		return config, cmdutil.WithAdvice(err, "the file is "+file.Path)
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
	return config, cmdutil.WithAdvice(err, advice)
}

// Warn prints the warning about the file of environments, if there is one.
func Warn(errs io.Writer, config execenv.Config) {
	if config.Warning != "" {
		cmdutil.Messagef(errs, "codex: warning: %s\n", terminal.Text(config.Warning))
	}
}

// UnknownEnvironment returns the error for an id that no environment has.
func UnknownEnvironment(config execenv.Config, id string) error {
	return cmdutil.Usagef("%v in %s; there are: %s", &execenv.UnknownError{ID: id}, decidedBy(config), strings.Join(config.IDs(), ", "))
}

// NoDefault returns the error for a command without --env if no default environment is configured.
func NoDefault(config execenv.Config) string {
	if config.Source == execenv.URLVariable {
		return execenv.URLVariable + " is none"
	}
	return config.Source + " has no default"
}

// decidedBy returns the name of the variable or file that defines the environments.
func decidedBy(config execenv.Config) string {
	if config.Source == "" {
		return "the built-in ones, because there is neither " + execenv.FileName + " nor " + execenv.URLVariable
	}
	return config.Source
}

// IDs returns the ids of the configured environments. If the configuration cannot be read, it returns no
// ids: its caller, shell completion, shows no errors.
func IDs() []string {
	config, err := Load("")
	if err != nil {
		return nil
	}
	ids := make([]string, len(config.Environments))
	for i, e := range config.Environments {
		ids[i] = e.ID
	}
	return ids
}
