package installed

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/fileop/skills"
	"go.yaml.in/yaml/v3"
)

// parseSkill parses the head of a SKILL.md: YAML between two lines `---`. named is the skill's
// name if the head has none. ok is false if the head is missing or lacks a required member.
func parseSkill(text, named string) (skill execproto.InstalledSkill, ok bool) {
	head, ok := headOf(text)
	if !ok {
		return skill, false
	}
	n, err := parseYAML(head)
	if err != nil {
		return skill, false
	}
	skill.Name = tidy(n.get("name"))
	if skill.Name == "" {
		skill.Name = skills.OneBlank(named)
	}
	skill.Description = tidy(n.get("description"))
	if short := tidy(n.get("metadata").get("short-description")); short != "" {
		skill.ShortDescription = &short
	}
	length := utf8.RuneCountInString(skill.Name)
	return skill, skill.Description != "" && length >= 1 && length <= maxName
}

// headOf returns the text between the two lines `---` at the beginning.
func headOf(text string) (string, bool) {
	first, rest, found := strings.Cut(text, "\n")
	if !found || strings.TrimRight(first, " \t\r") != "---" {
		return "", false
	}
	for at := 0; at < len(rest) && at <= maxYAML; {
		line, _, more := strings.Cut(rest[at:], "\n")
		if strings.TrimRight(line, " \t\r") == "---" {
			return rest[:at], true
		}
		if !more {
			break
		}
		at += len(line) + 1
	}
	return "", false
}

// tidy returns the text of a scalar, with one blank in place of each run of white space.
func tidy(n *node) string {
	text, _ := n.scalar()
	return skills.OneBlank(text)
}

// parseMetadata parses an agents/openai.yaml. It treats malformed members as absent.
func parseMetadata(text string) (*execproto.SkillDependencies, *execproto.SkillPolicy) {
	n, err := parseYAML(text)
	if err != nil {
		return nil, nil
	}
	var dependencies *execproto.SkillDependencies
	if d := n.get("dependencies"); d.is(yaml.MappingNode) {
		dependencies = &execproto.SkillDependencies{Tools: []execproto.SkillTool{}}
		for _, item := range d.get("tools").items() {
			if tool := toolOf(item); tool.Type != "" && tool.Value != "" {
				dependencies.Tools = append(dependencies.Tools, tool)
			}
		}
	}
	var policy *execproto.SkillPolicy
	if p := n.get("policy"); p.is(yaml.MappingNode) {
		policy = policyOf(p)
	}
	return dependencies, policy
}

func toolOf(n *node) execproto.SkillTool {
	text := func(name string) *string {
		if s, ok := n.get(name).scalar(); ok {
			return &s
		}
		return nil
	}
	tool := execproto.SkillTool{
		Description: text("description"), Transport: text("transport"), Command: text("command"), URL: text("url"),
	}
	tool.Type, _ = n.get("type").scalar()
	tool.Value, _ = n.get("value").scalar()
	if port := text("oauth_callback_port"); port != nil {
		if number, err := strconv.ParseUint(*port, 10, 16); err == nil {
			tool.OAuthCallbackPort = &number
		}
	}
	return tool
}

func policyOf(n *node) *execproto.SkillPolicy {
	p := &execproto.SkillPolicy{Products: []string{}}
	if implicit, ok := n.get("allow_implicit_invocation").boolean(); ok {
		p.AllowImplicitInvocation = &implicit
	}
	for _, item := range n.get("products").items() {
		if s, ok := item.scalar(); ok {
			p.Products = append(p.Products, s)
		}
	}
	return p
}
