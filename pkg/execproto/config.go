package execproto

import (
	"errors"
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

func (p *ConfigReadParams) Fields(c *jsonwire.Codec) {
	c.Text("cwd", need, &p.Cwd)
	keyPaths(c, "configPaths", need, &p.ConfigPaths)
	keyPaths(c, "requirementsPaths", need, &p.RequirementsPaths)
	isEmpty := func(path []string) bool { return len(path) == 0 }
	c.Refuse(len(p.ConfigPaths)+len(p.RequirementsPaths) == 0, errors.New("at least one config or requirements path is required"))
	c.Refuse(slices.ContainsFunc(p.ConfigPaths, isEmpty) || slices.ContainsFunc(p.RequirementsPaths, isEmpty),
		errors.New("TOML paths must contain at least one key segment"))
}

// keyPaths is a list of at most MaxConfigPaths paths of at most MaxConfigKeys keys.
func keyPaths(c *jsonwire.Codec, name string, rule jsonwire.Rule, to *[][]string) {
	jsonwire.List(c, name, rule, to, MaxConfigPaths, func(c *jsonwire.Codec, path *[]string) {
		jsonwire.ListValue(c, path, MaxConfigKeys, jsonwire.TextValue)
	})
}

// ConfigLayer is the selected part of one file. BaseDir is a `file:` URI.
type ConfigLayer struct {
	Source  string
	BaseDir string
	TOML    string
}

func (p *ConfigLayer) Fields(c *jsonwire.Codec) {
	c.Text("source", orNull, &p.Source)
	c.Text("baseDir", orNull, &p.BaseDir)
	c.Text("toml", orNull, &p.TOML)
}

// ConfigStack is layers, the lowest first.
type ConfigStack struct {
	Layers              []ConfigLayer
	CloudInsertionIndex int
}

func (p *ConfigStack) Fields(c *jsonwire.Codec) {
	jsonwire.Structs(c, "layers", orNull, &p.Layers)
	c.Int("cloudInsertionIndex", orNull, &p.CloudInsertionIndex)
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

func (r *ConfigReadResult) Fields(c *jsonwire.Codec) {
	jsonwire.Optional(c, "userHomeDir", orNull, &r.UserHomeDir, jsonwire.TextValue)
	c.Text("codexHomeDir", orNull, &r.CodexHomeDir)
	jsonwire.Optional(c, "hostname", orNull, &r.Hostname, jsonwire.TextValue)
	c.Struct("config", orNull, &r.Config)
	c.Struct("requirements", orNull, &r.Requirements)
}

// AppendJSON appends r.
func (r ConfigReadResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }
