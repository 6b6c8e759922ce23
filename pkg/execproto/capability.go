package execproto

import (
	"encoding/json"

	"codex.internal/pkg/wire/jsonwire"
)

// DiscoverParams ask for the plugins and skills below some directories
// (docs/spec/wire.md §5.10).
type DiscoverParams struct {
	Roots []DiscoverRoot
}

func (p *DiscoverParams) Fields(c *jsonwire.Codec) {
	jsonwire.Structs(c, "roots", need, &p.Roots)
}

// DiscoverRoot is one directory. ID is chosen by the client, and is repeated in the answer.
type DiscoverRoot struct {
	ID      string
	Path    string
	Sandbox json.RawMessage
}

func (p *DiscoverRoot) Fields(c *jsonwire.Codec) {
	c.Text("id", need, &p.ID)
	c.Text("path", need, &p.Path)
	c.Raw("sandbox", orNull|omit, &p.Sandbox)
}

// CapabilityFile is a text file. Path is a `file:` URI.
type CapabilityFile struct {
	Path     string
	Contents string
}

func (f *CapabilityFile) Fields(c *jsonwire.Codec) {
	c.Text("path", orNull, &f.Path)
	c.Text("contents", orNull, &f.Contents)
}

// CapabilityPlugin is a plugin: its manifest, and the files that the manifest names.
type CapabilityPlugin struct {
	Manifest   CapabilityFile
	MCPConfig  *CapabilityFile
	AppsConfig *CapabilityFile
}

func (p *CapabilityPlugin) Fields(c *jsonwire.Codec) {
	c.Struct("manifest", orNull, &p.Manifest)
	jsonwire.Optional(c, "mcpConfig", orNull, &p.MCPConfig, jsonwire.StructValue)
	jsonwire.Optional(c, "appsConfig", orNull, &p.AppsConfig, jsonwire.StructValue)
}

// CapabilitySkill is a SKILL.md and, if there is one, the agents/openai.yaml
// beside it.
type CapabilitySkill struct {
	Instructions CapabilityFile
	Metadata     *CapabilityFile
}

func (s *CapabilitySkill) Fields(c *jsonwire.Codec) {
	c.Struct("instructions", orNull, &s.Instructions)
	jsonwire.Optional(c, "metadata", orNull, &s.Metadata, jsonwire.StructValue)
}

// CapabilityRoot is the answer about one directory. If Error is set, all other
// fields are empty.
type CapabilityRoot struct {
	ID                 string
	Path               string
	Plugin             *CapabilityPlugin
	Skills             []CapabilitySkill
	NamespaceManifests []CapabilityFile
	Warnings           []string
	Error              *string
}

func (r *CapabilityRoot) Fields(c *jsonwire.Codec) {
	c.Text("id", orNull, &r.ID)
	c.Text("path", orNull, &r.Path)
	jsonwire.Optional(c, "plugin", orNull, &r.Plugin, jsonwire.StructValue)
	jsonwire.Structs(c, "skills", orNull, &r.Skills)
	jsonwire.Structs(c, "namespaceManifests", orNull, &r.NamespaceManifests)
	c.Texts("warnings", orNull, &r.Warnings)
	jsonwire.Optional(c, "error", orNull, &r.Error, jsonwire.TextValue)
}

// DiscoverResult answers capabilityRoots/discoverV1, in the order of the params.
type DiscoverResult struct {
	Roots []CapabilityRoot
}

func (r *DiscoverResult) Fields(c *jsonwire.Codec) {
	jsonwire.Structs(c, "roots", orNull, &r.Roots)
}

// AppendJSON appends r.
func (r DiscoverResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }
