package execproto

import (
	"encoding/json"

	"codex.internal/pkg/wire/jsonwire"
)

// InstalledParams ask for the plugins and skills that are installed for the
// server's user (docs/spec/wire.md §5.11). Cwd is checked but has no effect.
type InstalledParams struct {
	Cwd     string
	Sandbox json.RawMessage
}

func (p *InstalledParams) Fields(c *jsonwire.Codec) {
	c.Text("cwd", need, &p.Cwd)
	c.Raw("sandbox", orNull|omit, &p.Sandbox)
}

// SkillTool is a tool that a skill needs.
type SkillTool struct {
	Type              string
	Value             string
	Description       *string
	Transport         *string
	Command           *string
	URL               *string
	OAuthCallbackPort *uint64
}

func (t *SkillTool) Fields(c *jsonwire.Codec) {
	c.Text("type", orNull, &t.Type)
	c.Text("value", orNull, &t.Value)
	jsonwire.Optional(c, "description", orNull, &t.Description, jsonwire.TextValue)
	jsonwire.Optional(c, "transport", orNull, &t.Transport, jsonwire.TextValue)
	jsonwire.Optional(c, "command", orNull, &t.Command, jsonwire.TextValue)
	jsonwire.Optional(c, "url", orNull, &t.URL, jsonwire.TextValue)
	jsonwire.Optional(c, "oauthCallbackPort", orNull, &t.OAuthCallbackPort, jsonwire.Uint64Value)
}

// SkillDependencies are the tools that a skill needs.
type SkillDependencies struct {
	Tools []SkillTool
}

func (d *SkillDependencies) Fields(c *jsonwire.Codec) {
	jsonwire.Structs(c, "tools", orNull, &d.Tools)
}

// SkillPolicy describes when a skill may be used; nil: not specified.
type SkillPolicy struct {
	AllowImplicitInvocation *bool
	Products                []string
}

func (p *SkillPolicy) Fields(c *jsonwire.Codec) {
	jsonwire.Optional(c, "allowImplicitInvocation", orNull, &p.AllowImplicitInvocation, jsonwire.BoolValue)
	c.Texts("products", orNull, &p.Products)
}

// SkillRoot is the directory below which a skill was found, as a `file:` URI.
type SkillRoot struct {
	ID   string
	Path string
}

func (r *SkillRoot) Fields(c *jsonwire.Codec) {
	c.Text("id", orNull, &r.ID)
	c.Text("path", orNull, &r.Path)
}

// InstalledSkill is the head of a SKILL.md. A skill of a plugin has no
// DiscoveryRoot.
type InstalledSkill struct {
	Name             string
	Description      string
	ShortDescription *string
	Path             string
	DiscoveryRoot    *SkillRoot
	Dependencies     *SkillDependencies
	Policy           *SkillPolicy
}

func (s *InstalledSkill) Fields(c *jsonwire.Codec) {
	c.Text("name", orNull, &s.Name)
	c.Text("description", orNull, &s.Description)
	jsonwire.Optional(c, "shortDescription", orNull, &s.ShortDescription, jsonwire.TextValue)
	c.Text("path", orNull, &s.Path)
	jsonwire.Optional(c, "discoveryRoot", orNull|omit, &s.DiscoveryRoot, jsonwire.StructValue)
	jsonwire.Optional(c, "dependencies", orNull, &s.Dependencies, jsonwire.StructValue)
	jsonwire.Optional(c, "policy", orNull, &s.Policy, jsonwire.StructValue)
}

// InstalledPlugin is one version of a plugin.
type InstalledPlugin struct {
	ID             string
	DisplayName    string
	RemotePluginID *string
	Version        string
	Root           string
	Files          CapabilityPlugin
	Skills         []InstalledSkill
}

func (p *InstalledPlugin) Fields(c *jsonwire.Codec) {
	c.Text("id", orNull, &p.ID)
	c.Text("displayName", orNull, &p.DisplayName)
	jsonwire.Optional(c, "remotePluginId", orNull, &p.RemotePluginID, jsonwire.TextValue)
	c.Text("version", orNull, &p.Version)
	c.Text("root", orNull, &p.Root)
	c.Struct("files", orNull, &p.Files)
	jsonwire.Structs(c, "skills", orNull, &p.Skills)
}

// InstalledResult answers capabilities/discoverV2.
type InstalledResult struct {
	Plugins  []InstalledPlugin
	Skills   []InstalledSkill
	Warnings []string
}

func (r *InstalledResult) Fields(c *jsonwire.Codec) {
	jsonwire.Structs(c, "plugins", orNull, &r.Plugins)
	jsonwire.Structs(c, "skills", orNull, &r.Skills)
	c.Texts("warnings", orNull, &r.Warnings)
}

// AppendJSON appends r.
func (r InstalledResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }
