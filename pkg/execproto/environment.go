package execproto

// Shell is the user's shell: its name (bash, zsh, sh, ...) and native path.
type Shell struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// Capabilities say what a client may rely on (docs/spec/wire.md §7.2); absent
// means false.
type Capabilities struct {
	FileWriteStreaming     bool `json:"fileWriteStreaming"`
	SandboxedFileStreaming bool `json:"sandboxedFileStreaming"`
	// RootWriteKeepsDevices and RootWriteKeepsRestrictions are about a profile in
	// which / may be written: its commands have the usual devices, and what
	// entries deny or make read-only stays so, after an approved escalation too.
	RootWriteKeepsDevices      bool `json:"linuxRootWritePreservesDevices"`
	RootWriteKeepsRestrictions bool `json:"linuxApprovedRootWritePreservesRestrictions"`
	HTTPHeaderEnvVars          bool `json:"httpHeaderEnvVars"`
}

// EnvironmentInfo answers environment/info (docs/spec/wire.md §7.1). Cwd,
// TempDir, UserHomeDir and TemporaryDirectories are `file:` URIs.
type EnvironmentInfo struct {
	Shell                Shell        `json:"shell"`
	Cwd                  string       `json:"cwd,omitempty"`
	TempDir              string       `json:"tempDir,omitempty"`
	UserHomeDir          string       `json:"userHomeDir,omitempty"`
	TemporaryDirectories []string     `json:"temporaryDirectories"`
	PlatformOS           string       `json:"platformOs,omitempty"`
	ExecutorVersion      string       `json:"executorVersion,omitempty"`
	Capabilities         Capabilities `json:"capabilities"`
}

// StatusResult answers environment/status; Status is "ready".
type StatusResult struct {
	Status string `json:"status"`
}
