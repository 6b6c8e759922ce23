package home

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"codex.internal/pkg/host/safeopen"
)

// Config has the settings of config.toml that a server uses. The many other settings are for its
// client.
type Config struct {
	// ChatGPTBaseURL is the URL of ChatGPT's backend; empty: the public one.
	ChatGPTBaseURL string `toml:"chatgpt_base_url"`
	// CredentialsStore is where credentials are stored: file, keyring, auto or
	// ephemeral; empty: file.
	CredentialsStore string `toml:"cli_auth_credentials_store"`
	// ForcedLoginMethod is the only permitted way to sign in: chatgpt or api; empty: any.
	ForcedLoginMethod string `toml:"forced_login_method"`
	// ForcedWorkspaceIDs are the only workspaces to which the user may sign in; nil: any.
	ForcedWorkspaceIDs []string `toml:"-"`
}

// LoadConfig reads home's config.toml, which may be missing, and applies
// overrides of the form KEY=VALUE. KEY may have dots. VALUE is TOML, or a
// string if it is not valid TOML. With strict, unknown top-level names are an
// error. Errors in the file are *ConfigError.
func LoadConfig(home string, overrides []string, strict bool) (Config, error) {
	var c Config
	path := filepath.Join(home, "config.toml")
	text, err := safeopen.ReadFile(path, maxFileBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("failed to read config file %s: %w", path, cause(err))
	}
	if err := decodeConfig(text, &c, strict); err != nil {
		err.Path = path
		return c, err
	}
	for _, o := range overrides {
		if err := override(o, &c, strict); err != nil {
			return c, err
		}
	}
	return c, nil
}

// configFile is the decoded part of the file.
type configFile struct {
	Config
	// Workspace is one id or an array of them.
	Workspace any `toml:"forced_chatgpt_workspace_id"`
}

// decodeConfig decodes a document into c.
func decodeConfig(text []byte, c *Config, strict bool) *ConfigError {
	file := configFile{Config: *c}
	if err := DecodeTOML(text, &file, false); err != nil {
		return err
	}
	*c = file.Config
	switch ids := file.Workspace.(type) {
	case nil:
	case string:
		c.ForcedWorkspaceIDs = []string{ids}
	default:
		var list struct {
			IDs []string `toml:"forced_chatgpt_workspace_id"`
		}
		if err := DecodeTOML(text, &list, false); err != nil {
			return err
		}
		c.ForcedWorkspaceIDs = list.IDs
	}
	if err := unknownValues(text); err != nil || !strict {
		return err
	}
	return unknownNames(text)
}

// configValues has the permitted values of names that do not accept every value, in the form in
// which Codex CLI lists them. Other values are refused, because a misspelt restriction must not be
// ignored.
var configValues = map[string]struct {
	values []string
	listed string
}{
	"cli_auth_credentials_store": {[]string{"file", "keyring", "auto", "ephemeral"}, "one of `file`, `keyring`, `auto`, `ephemeral`"},
	"forced_login_method":        {[]string{"chatgpt", "api"}, "`chatgpt` or `api`"},
}

// unknownValues finds the first value that is not permitted.
func unknownValues(text []byte) *ConfigError {
	var p unstable.Parser
	p.Reset(text)
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind != unstable.KeyValue {
			return nil // a table: the names of the top level are before it
		}
		key := e.Key()
		key.Next()
		known, limited := configValues[string(key.Node().Data)]
		if value := e.Value(); limited && key.IsLast() && !slices.Contains(known.values, string(value.Data)) {
			at := p.Shape(value.Raw).Start
			return &ConfigError{Line: at.Line, Column: at.Column, Message: fmt.Sprintf("unknown variant `%s`, expected %s", value.Data, known.listed)}
		}
	}
	return nil
}

// unknownNames finds the first unknown top-level name.
func unknownNames(text []byte) *ConfigError {
	var p unstable.Parser
	p.Reset(text)
	for atTop := true; p.NextExpression(); {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			atTop = false
		case unstable.KeyValue:
			if !atTop {
				continue
			}
		default:
			continue
		}
		key := e.Key()
		key.Next()
		name := key.Node()
		if _, known := slices.BinarySearch(configNames, string(name.Data)); !known {
			at := p.Shape(name.Raw).Start
			return &ConfigError{Line: at.Line, Column: at.Column, Message: fmt.Sprintf("unknown configuration field `%s`", name.Data)}
		}
	}
	return nil
}

// override applies KEY=VALUE.
func override(text string, c *Config, strict bool) error {
	key, document, err := Override(text)
	if err != nil {
		return err
	}
	name, _, _ := strings.Cut(key, ".")
	if _, known := slices.BinarySearch(configNames, name); strict && !known {
		return fmt.Errorf("unknown configuration field `%s` in -c/--config override", name)
	}
	if err := decodeConfig(document, c, false); err != nil {
		return fmt.Errorf("-c %s: %s", key, err.Message)
	}
	return nil
}

// Override splits KEY=VALUE. It returns the key, which may have dots, and a TOML document that sets
// the key to the value. A VALUE that is not TOML is a string.
func Override(text string) (key string, document []byte, err error) {
	key, value, ok := strings.Cut(text, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	switch {
	case !ok:
		//lint:ignore ST1005 Codex CLI's text
		return "", nil, fmt.Errorf("Invalid override (missing '='): %s", text)
	case key == "":
		//lint:ignore ST1005 Codex CLI's text
		return "", nil, fmt.Errorf("Empty key in override: %s", text)
	}
	if !isTOML(value) {
		doc, err := toml.Marshal(map[string]string{"value": strings.Trim(value, `"'`)})
		if err != nil {
			return "", nil, fmt.Errorf("-c %s: %w", key, err)
		}
		value = strings.TrimPrefix(string(doc), "value = ")
	}
	return key, []byte(key + " = " + value), nil
}

// isTOML reports whether text is one TOML value.
func isTOML(text string) bool {
	var doc map[string]any
	return toml.Unmarshal([]byte("value = "+text), &doc) == nil && len(doc) == 1
}

// configNames are the top-level names that codex 0.142.0 and 0.169.0 know,
// sorted.
var configNames = []string{
	"agents", "allow_login_shell", "analytics", "approval_policy", "approvals_reviewer", "apps",
	"apps_mcp_product_sku", "audio", "auto_review", "background_terminal_max_timeout",
	"chatgpt_base_url", "check_for_update_on_startup", "cli_auth_credentials_store",
	"compact_prompt", "computer_use", "debug", "default_permissions", "desktop",
	"developer_instructions", "disable_paste_burst", "experimental_compact_prompt_file",
	"experimental_realtime_start_instructions", "experimental_realtime_ws_backend_prompt",
	"experimental_realtime_ws_base_url", "experimental_realtime_ws_model",
	"experimental_realtime_ws_startup_context", "experimental_thread_config_endpoint",
	"experimental_thread_store", "experimental_use_unified_exec_tool", "features", "feedback",
	"file_opener", "forced_chatgpt_workspace_id", "forced_login_method", "ghost_snapshot",
	"hide_agent_reasoning", "history", "hooks", "include_apps_instructions",
	"include_collaboration_mode_instructions", "include_environment_context",
	"include_permissions_instructions", "instructions", "js_repl_node_module_dirs",
	"js_repl_node_path", "log_dir", "marketplaces", "mcp_oauth_callback_port",
	"mcp_oauth_callback_url", "mcp_oauth_credentials_store", "mcp_servers", "memories", "model",
	"model_auto_compact_token_limit", "model_auto_compact_token_limit_scope",
	"model_catalog_json", "model_context_window", "model_instructions_file", "model_provider",
	"model_providers", "model_reasoning_effort", "model_reasoning_summary",
	"model_supports_reasoning_summaries", "model_verbosity", "notice", "notify",
	"openai_base_url", "oss_provider", "otel", "permissions", "personality",
	"plan_mode_reasoning_effort", "plugins", "profile", "profiles",
	"project_doc_fallback_filenames", "project_doc_max_bytes", "project_root_markers", "projects",
	"realtime", "review_model", "sandbox_mode", "sandbox_workspace_write", "service_tier",
	"shell_environment_policy", "show_raw_agent_reasoning", "skills", "sqlite_home",
	"suppress_unstable_features_warning", "tool_output_token_limit", "tool_suggest", "tools",
	"tui", "web_search", "windows",
}
