package execproto

import (
	"errors"
	"fmt"
	"slices"

	"codex.internal/pkg/wire/jsonwire"
)

// ConfigReadParams select parts of the configuration of the server's machine
// (docs/spec/wire.md §7.4). A path is a list of literal keys; at least one list has
// a path, and every path has a key.
type ConfigReadParams struct {
	Cwd               string
	ConfigPaths       [][]string
	RequirementsPaths [][]string
}

func (p *ConfigReadParams) fields(c *codec) {
	text(c, "cwd", need, &p.Cwd)
	keyPaths(c, "configPaths", need, &p.ConfigPaths)
	keyPaths(c, "requirementsPaths", need, &p.RequirementsPaths)
	isEmpty := func(path []string) bool { return len(path) == 0 }
	c.refuse(len(p.ConfigPaths)+len(p.RequirementsPaths) == 0, errors.New("at least one config or requirements path is required"))
	c.refuse(slices.ContainsFunc(p.ConfigPaths, isEmpty) || slices.ContainsFunc(p.RequirementsPaths, isEmpty),
		errors.New("TOML paths must contain at least one key segment"))
}

// keyPaths is a list of at most MaxConfigPaths paths of at most MaxConfigKeys keys.
func keyPaths(c *codec, name string, rule rule, to *[][]string) {
	if !c.visit(name, rule, jsonwire.Array, *to == nil) {
		return
	}
	if c.mode == writing {
		c.b = append(c.b, '[')
		for i, path := range *to {
			if i > 0 {
				c.b = append(c.b, ',')
			}
			c.b = appendTexts(c.b, path)
		}
		c.b = append(c.b, ']')
		return
	}
	*to = [][]string{}
	c.err = c.r.Array("a sequence", func() error {
		path := []string{}
		if len(*to) == MaxConfigPaths {
			return fmt.Errorf("at most %d elements are allowed", MaxConfigPaths)
		}
		err := c.r.Array("a sequence", func() error {
			if len(path) == MaxConfigKeys {
				return fmt.Errorf("at most %d elements are allowed", MaxConfigKeys)
			}
			key, err := c.r.String()
			path = append(path, key)
			return err
		})
		*to = append(*to, path)
		return err
	})
}

// ConfigLayer is the selected part of one file. BaseDir is a `file:` URI.
type ConfigLayer struct {
	Source  string
	BaseDir string
	TOML    string
}

func (p *ConfigLayer) fields(c *codec) {
	text(c, "source", orNull, &p.Source)
	text(c, "baseDir", orNull, &p.BaseDir)
	text(c, "toml", orNull, &p.TOML)
}

// ConfigStack is layers, the lowest first.
type ConfigStack struct {
	Layers              []ConfigLayer
	CloudInsertionIndex int
}

func (p *ConfigStack) fields(c *codec) {
	objects(c, "layers", orNull, &p.Layers)
	integer(c, "cloudInsertionIndex", orNull, &p.CloudInsertionIndex)
}

// ConfigReadResult answers environmentConfig/read. The directories are `file:`
// URIs; UserHomeDir and Hostname are nil if they are unknown.
type ConfigReadResult struct {
	UserHomeDir  *string
	CodexHomeDir string
	Hostname     *string
	Config       ConfigStack
	Requirements ConfigStack
}

func (r *ConfigReadResult) fields(c *codec) {
	optional(c, "userHomeDir", orNull, &r.UserHomeDir, textValue)
	text(c, "codexHomeDir", orNull, &r.CodexHomeDir)
	optional(c, "hostname", orNull, &r.Hostname, textValue)
	nested(c, "config", orNull, &r.Config)
	nested(c, "requirements", orNull, &r.Requirements)
}

// AppendJSON appends r.
func (r ConfigReadResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }
