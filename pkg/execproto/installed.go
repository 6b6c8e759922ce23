package execproto

import "encoding/json"

// InstalledParams ask what is installed for the server's user
// (docs/spec/wire.md §5.11). Cwd is checked and has no influence.
type InstalledParams struct {
	Cwd     string
	Sandbox json.RawMessage
}

func (p *InstalledParams) fields(c *codec) {
	text(c, "cwd", need, &p.Cwd)
	raw(c, "sandbox", orNull|omit, &p.Sandbox)
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

func (t *SkillTool) fields(c *codec) {
	text(c, "type", orNull, &t.Type)
	text(c, "value", orNull, &t.Value)
	optional(c, "description", orNull, &t.Description, textValue)
	optional(c, "transport", orNull, &t.Transport, textValue)
	optional(c, "command", orNull, &t.Command, textValue)
	optional(c, "url", orNull, &t.URL, textValue)
	optional(c, "oauthCallbackPort", orNull, &t.OAuthCallbackPort, uint64Value)
}

// SkillDependencies are what a skill needs.
type SkillDependencies struct {
	Tools []SkillTool
}

func (d *SkillDependencies) fields(c *codec) {
	objects(c, "tools", orNull, &d.Tools)
}

// SkillPolicy says when a skill may be used; nil: nothing is said.
type SkillPolicy struct {
	AllowImplicitInvocation *bool
	Products                []string
}

func (p *SkillPolicy) fields(c *codec) {
	optional(c, "allowImplicitInvocation", orNull, &p.AllowImplicitInvocation, booleanValue)
	texts(c, "products", orNull, &p.Products)
}

// SkillRoot is the directory below which a skill was found, as a `file:` URI.
type SkillRoot struct {
	ID   string
	Path string
}

func (r *SkillRoot) fields(c *codec) {
	text(c, "id", orNull, &r.ID)
	text(c, "path", orNull, &r.Path)
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

func (s *InstalledSkill) fields(c *codec) {
	text(c, "name", orNull, &s.Name)
	text(c, "description", orNull, &s.Description)
	optional(c, "shortDescription", orNull, &s.ShortDescription, textValue)
	text(c, "path", orNull, &s.Path)
	optional(c, "discoveryRoot", orNull|omit, &s.DiscoveryRoot, objectValue)
	optional(c, "dependencies", orNull, &s.Dependencies, objectValue)
	optional(c, "policy", orNull, &s.Policy, objectValue)
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

func (p *InstalledPlugin) fields(c *codec) {
	text(c, "id", orNull, &p.ID)
	text(c, "displayName", orNull, &p.DisplayName)
	optional(c, "remotePluginId", orNull, &p.RemotePluginID, textValue)
	text(c, "version", orNull, &p.Version)
	text(c, "root", orNull, &p.Root)
	nested(c, "files", orNull, &p.Files)
	objects(c, "skills", orNull, &p.Skills)
}

// InstalledResult answers capabilities/discoverV2.
type InstalledResult struct {
	Plugins  []InstalledPlugin
	Skills   []InstalledSkill
	Warnings []string
}

func (r *InstalledResult) fields(c *codec) {
	objects(c, "plugins", orNull, &r.Plugins)
	objects(c, "skills", orNull, &r.Skills)
	texts(c, "warnings", orNull, &r.Warnings)
}

// AppendJSON appends r.
func (r InstalledResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }
