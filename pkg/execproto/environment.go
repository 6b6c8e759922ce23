package execproto

import "codex.internal/pkg/wire/jsonwire"

// Shell is the user's shell: its name (bash, zsh, sh, ...) and native path.
type Shell struct {
	Name string
	Path string
}

func (p *Shell) Fields(c *jsonwire.Codec) {
	c.Text("name", orNull, &p.Name)
	c.Text("path", orNull, &p.Path)
}

// Capabilities are the features that a client may rely on
// (docs/spec/wire.md §7.2); absent means false.
type Capabilities struct {
	FileWriteStreaming     bool
	SandboxedFileStreaming bool
	// RootWriteKeepsDevices and RootWriteKeepsRestrictions are about profiles that permit
	// writing to /. Commands with such a profile have the usual devices. Paths that entries
	// deny or make read-only stay so, even after an approved escalation.
	RootWriteKeepsDevices      bool
	RootWriteKeepsRestrictions bool
	// EnvironmentConfigRead means that the server answers environmentConfig/read.
	EnvironmentConfigRead bool
	// FSWatchMissing means that fs/watchMissing can watch paths.
	FSWatchMissing    bool
	HTTPHeaderEnvVars bool
	// CapabilityDiscoverySandbox means that capabilityRoots/discoverV1 accepts
	// a sandbox for each root.
	CapabilityDiscoverySandbox bool
	// CapabilityDiscoveryV2 means that the server answers capabilities/discoverV2.
	CapabilityDiscoveryV2 bool
	// ShellSnapshotV2 means that process/start accepts a shellSnapshot.
	ShellSnapshotV2 bool
	// NetworkProxyLaunch and NetworkProxyReviewDomains mean that a process may
	// have its own network proxy (docs/spec/network.md §4).
	NetworkProxyLaunch        bool
	NetworkProxyReviewDomains bool
	// NetworkProxyTransparentTCP means that programs of a process reach the hosts of its network
	// proxy without knowing of the proxy, if the start asks for it (docs/spec/network.md §5).
	NetworkProxyTransparentTCP bool
}

func (p *Capabilities) Fields(c *jsonwire.Codec) {
	c.Bool("fileWriteStreaming", orNull, &p.FileWriteStreaming)
	c.Bool("sandboxedFileStreaming", orNull, &p.SandboxedFileStreaming)
	c.Bool("linuxRootWritePreservesDevices", orNull|omit, &p.RootWriteKeepsDevices)
	c.Bool("linuxApprovedRootWritePreservesRestrictions", orNull|omit, &p.RootWriteKeepsRestrictions)
	c.Bool("environmentConfigRead", orNull|omit, &p.EnvironmentConfigRead)
	c.Bool("fsWatchMissing", orNull|omit, &p.FSWatchMissing)
	c.Bool("httpHeaderEnvVars", orNull, &p.HTTPHeaderEnvVars)
	c.Bool("capabilityDiscoverySandbox", orNull|omit, &p.CapabilityDiscoverySandbox)
	c.Bool("capabilityDiscoveryV2", orNull|omit, &p.CapabilityDiscoveryV2)
	c.Bool("shellSnapshotV2", orNull|omit, &p.ShellSnapshotV2)
	c.Bool("networkProxyLaunch", orNull|omit, &p.NetworkProxyLaunch)
	c.Bool("networkProxyReviewDomains", orNull|omit, &p.NetworkProxyReviewDomains)
	c.Bool("networkProxyTransparentTcp", orNull|omit, &p.NetworkProxyTransparentTCP)
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

func (p *EnvironmentInfo) Fields(c *jsonwire.Codec) {
	c.Struct("shell", orNull, &p.Shell)
	c.Text("cwd", orNull|omit, &p.Cwd)
	c.Text("tempDir", orNull|omit, &p.TempDir)
	c.Text("userHomeDir", orNull|omit, &p.UserHomeDir)
	c.Text("platformOs", orNull|omit, &p.PlatformOS)
	c.Text("executorVersion", orNull|omit, &p.ExecutorVersion)
	c.Texts("temporaryDirectories", orNull, &p.TemporaryDirectories)
	c.Struct("capabilities", orNull, &p.Capabilities)
}

// AppendJSON appends p.
func (p EnvironmentInfo) AppendJSON(b []byte) []byte { return appendObject(b, &p) }

// StatusResult answers environment/status; Status is "ready".
type StatusResult struct {
	Status string
}

func (r *StatusResult) Fields(c *jsonwire.Codec) {
	c.Text("status", orNull, &r.Status)
}

// AppendJSON appends r.
func (r StatusResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }
