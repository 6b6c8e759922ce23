package execproto

import "encoding/json"

// DiscoverParams ask what is below some directories
// (docs/spec/wire.md §5.10).
type DiscoverParams struct {
	Roots []DiscoverRoot
}

func (p *DiscoverParams) fields(c *codec) {
	objects(c, "roots", need, &p.Roots)
}

// DiscoverRoot is one directory. ID is the client's own, and is repeated.
type DiscoverRoot struct {
	ID      string
	Path    string
	Sandbox json.RawMessage
}

func (p *DiscoverRoot) fields(c *codec) {
	text(c, "id", need, &p.ID)
	text(c, "path", need, &p.Path)
	raw(c, "sandbox", orNull|omit, &p.Sandbox)
}

// CapabilityFile is a text file. Path is a `file:` URI.
type CapabilityFile struct {
	Path     string
	Contents string
}

func (f *CapabilityFile) fields(c *codec) {
	text(c, "path", orNull, &f.Path)
	text(c, "contents", orNull, &f.Contents)
}

// CapabilityPlugin is a plugin: its manifest, and what that names.
type CapabilityPlugin struct {
	Manifest   CapabilityFile
	MCPConfig  *CapabilityFile
	AppsConfig *CapabilityFile
}

func (p *CapabilityPlugin) fields(c *codec) {
	nested(c, "manifest", orNull, &p.Manifest)
	optional(c, "mcpConfig", orNull, &p.MCPConfig, objectValue)
	optional(c, "appsConfig", orNull, &p.AppsConfig, objectValue)
}

// CapabilitySkill is a SKILL.md and, if there is one, the agents/openai.yaml
// beside it.
type CapabilitySkill struct {
	Instructions CapabilityFile
	Metadata     *CapabilityFile
}

func (s *CapabilitySkill) fields(c *codec) {
	nested(c, "instructions", orNull, &s.Instructions)
	optional(c, "metadata", orNull, &s.Metadata, objectValue)
}

// CapabilityRoot is what is below one directory. If Error is set, nothing else
// is.
type CapabilityRoot struct {
	ID                 string
	Path               string
	Plugin             *CapabilityPlugin
	Skills             []CapabilitySkill
	NamespaceManifests []CapabilityFile
	Warnings           []string
	Error              *string
}

func (r *CapabilityRoot) fields(c *codec) {
	text(c, "id", orNull, &r.ID)
	text(c, "path", orNull, &r.Path)
	optional(c, "plugin", orNull, &r.Plugin, objectValue)
	objects(c, "skills", orNull, &r.Skills)
	objects(c, "namespaceManifests", orNull, &r.NamespaceManifests)
	texts(c, "warnings", orNull, &r.Warnings)
	optional(c, "error", orNull, &r.Error, textValue)
}

// DiscoverResult answers capabilityRoots/discoverV1, in the order of the params.
type DiscoverResult struct {
	Roots []CapabilityRoot
}

func (r *DiscoverResult) fields(c *codec) {
	objects(c, "roots", orNull, &r.Roots)
}

// AppendJSON appends r.
func (r DiscoverResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }
