package execproto

// Shell is the user's shell: its name (bash, zsh, sh, ...) and native path.
type Shell struct {
	Name string
	Path string
}

func (p *Shell) fields(c *codec) {
	text(c, "name", orNull, &p.Name)
	text(c, "path", orNull, &p.Path)
}

// Capabilities say what a client may rely on (docs/spec/wire.md §7.2); absent
// means false.
type Capabilities struct {
	FileWriteStreaming     bool
	SandboxedFileStreaming bool
	// RootWriteKeepsDevices and RootWriteKeepsRestrictions are about a profile in
	// which / may be written: its commands have the usual devices, and what
	// entries deny or make read-only stays so, after an approved escalation too.
	RootWriteKeepsDevices      bool
	RootWriteKeepsRestrictions bool
	// EnvironmentConfigRead says that the server answers environmentConfig/read.
	EnvironmentConfigRead bool
	// FSWatchMissing says that fs/watchMissing can watch paths.
	FSWatchMissing    bool
	HTTPHeaderEnvVars bool
	// CapabilityDiscoverySandbox says that capabilityRoots/discoverV1 takes a
	// sandbox for each root.
	CapabilityDiscoverySandbox bool
	// CapabilityDiscoveryV2 says that the server answers capabilities/discoverV2.
	CapabilityDiscoveryV2 bool
	// ShellSnapshotV2 says that process/start takes a shellSnapshot.
	ShellSnapshotV2 bool
	// NetworkProxyLaunch and NetworkProxyReviewDomains say that a process may have
	// a network proxy of its own (docs/spec/network.md §4).
	NetworkProxyLaunch        bool
	NetworkProxyReviewDomains bool
}

func (p *Capabilities) fields(c *codec) {
	boolean(c, "fileWriteStreaming", orNull, &p.FileWriteStreaming)
	boolean(c, "sandboxedFileStreaming", orNull, &p.SandboxedFileStreaming)
	boolean(c, "linuxRootWritePreservesDevices", orNull|omit, &p.RootWriteKeepsDevices)
	boolean(c, "linuxApprovedRootWritePreservesRestrictions", orNull|omit, &p.RootWriteKeepsRestrictions)
	boolean(c, "environmentConfigRead", orNull|omit, &p.EnvironmentConfigRead)
	boolean(c, "fsWatchMissing", orNull|omit, &p.FSWatchMissing)
	boolean(c, "httpHeaderEnvVars", orNull, &p.HTTPHeaderEnvVars)
	boolean(c, "capabilityDiscoverySandbox", orNull|omit, &p.CapabilityDiscoverySandbox)
	boolean(c, "capabilityDiscoveryV2", orNull|omit, &p.CapabilityDiscoveryV2)
	boolean(c, "shellSnapshotV2", orNull|omit, &p.ShellSnapshotV2)
	boolean(c, "networkProxyLaunch", orNull|omit, &p.NetworkProxyLaunch)
	boolean(c, "networkProxyReviewDomains", orNull|omit, &p.NetworkProxyReviewDomains)
}

// EnvironmentInfo answers environment/info (docs/spec/wire.md §7.1). Cwd,
// TempDir, UserHomeDir and TemporaryDirectories are `file:` URIs.
type EnvironmentInfo struct {
	Shell                Shell
	Cwd                  string
	TempDir              string
	UserHomeDir          string
	TemporaryDirectories []string
	PlatformOS           string
	ExecutorVersion      string
	Capabilities         Capabilities
}

func (p *EnvironmentInfo) fields(c *codec) {
	nested(c, "shell", orNull, &p.Shell)
	text(c, "cwd", orNull|omit, &p.Cwd)
	text(c, "tempDir", orNull|omit, &p.TempDir)
	text(c, "userHomeDir", orNull|omit, &p.UserHomeDir)
	text(c, "platformOs", orNull|omit, &p.PlatformOS)
	text(c, "executorVersion", orNull|omit, &p.ExecutorVersion)
	texts(c, "temporaryDirectories", orNull, &p.TemporaryDirectories)
	nested(c, "capabilities", orNull, &p.Capabilities)
}

// AppendJSON appends p.
func (p EnvironmentInfo) AppendJSON(b []byte) []byte { return appendObject(b, &p) }

// StatusResult answers environment/status; Status is "ready".
type StatusResult struct {
	Status string
}

func (r *StatusResult) fields(c *codec) {
	text(c, "status", orNull, &r.Status)
}

// AppendJSON appends r.
func (r StatusResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }
