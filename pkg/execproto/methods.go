package execproto

// Requests of Codex CLI's protocol (docs/spec/wire.md §3 to §7).
const (
	MethodInitialize      = "initialize"
	MethodEnvironmentInfo = "environment/info"

	MethodProcessStart     = "process/start"
	MethodProcessRead      = "process/read"
	MethodProcessWrite     = "process/write"
	MethodProcessSignal    = "process/signal"
	MethodProcessTerminate = "process/terminate"

	MethodFSReadFile        = "fs/readFile"
	MethodFSOpen            = "fs/open"
	MethodFSReadBlock       = "fs/readBlock"
	MethodFSClose           = "fs/close"
	MethodFSWriteFile       = "fs/writeFile"
	MethodFSCreateDirectory = "fs/createDirectory"
	MethodFSGetMetadata     = "fs/getMetadata"
	MethodFSCanonicalize    = "fs/canonicalize"
	MethodFSReadDirectory   = "fs/readDirectory"
	MethodFSRemove          = "fs/remove"
	MethodFSCopy            = "fs/copy"

	MethodHTTPRequest = "http/request"
)

// Requests that later releases of Codex CLI have too (docs/spec/wire.md §8.1).
const (
	MethodEnvironmentStatus = "environment/status"
	MethodFSWalk            = "fs/walk"
	MethodFSWriteBlock      = "fs/writeBlock"

	MethodFSWatchMissing        = "fs/watchMissing"
	MethodEnvironmentConfigRead = "environmentConfig/read"

	MethodCapabilityRootsDiscover = "capabilityRoots/discoverV1"
	MethodCapabilitiesDiscover    = "capabilities/discoverV2"
)

// Requests that only this server has (docs/spec/wire.md §8.2).
const (
	MethodProcessCloseStdin = "process/closeStdin"
	MethodProcessResize     = "process/resize"
	MethodProcessList       = "process/list"
	MethodProcessDetached   = "process/listDetached"
	MethodProcessForget     = "process/forget"
	MethodFSRename          = "fs/rename"
	MethodFSGetAttributes   = "fs/getAttributes"
	MethodFSListAttributes  = "fs/listAttributes"
	MethodFSSetAttributes   = "fs/setAttributes"
	MethodFSSymlink         = "fs/symlink"
	MethodFSWatch           = "fs/watch"
	MethodFSUnwatch         = "fs/unwatch"
	MethodFSOpenArchive     = "fs/openArchive"
	MethodTunnelOpen        = "tunnel/open"
	MethodTunnelListen      = "tunnel/listen"
	MethodTunnelUnlisten    = "tunnel/unlisten"
	MethodTunnelResume      = "tunnel/resume"
	MethodTunnelWatchPorts  = "tunnel/watchPorts"
	MethodTunnelUnwatch     = "tunnel/unwatchPorts"
)

// Notifications from client to server. ProcessAck and HTTPAck are known only
// to this server (docs/spec/wire.md §8.2).
const (
	NotifyInitialized = "initialized"
	NotifyProcessAck  = "process/ack"
	NotifyHTTPAck     = "http/request/ack"
)

// ExtensionDetach is the name of the extension with StartParams.Detach, in
// InitializeResult.Extensions.
const ExtensionDetach = "process/detach"

// These notifications of tunnels are known only to this server. Both ends send the first
// three; only the server sends the others.
const (
	NotifyTunnelData     = "tunnel/data"
	NotifyTunnelAck      = "tunnel/ack"
	NotifyTunnelClose    = "tunnel/close"
	NotifyTunnelAccepted = "tunnel/accepted"
	NotifyTunnelPorts    = "tunnel/ports"
)

// ExtensionTakeOver is the name of the extension with InitializeParams.TakeOver, in
// InitializeResult.Extensions. The other extensions have the names of their requests and
// notifications.
const ExtensionTakeOver = "initialize/takeOver"

// ExtensionLimits is the name of the extension with StartParams.Limits, and with
// the cause and the resources in process/exited.
const ExtensionLimits = "process/limits"

// ExtensionEndOthers is the name of the extension with TerminateParams.Session and SignalParams.Session. Other servers
// ignore them.
const ExtensionEndOthers = "process/terminate/session"

// ExtensionOutputTimes is the name of the extension with ReadParams.Times. Other servers ignore it.
const ExtensionOutputTimes = "process/read/times"

// ExtensionUsage is the name of the extension with ListParams. Other servers refuse them.
const ExtensionUsage = "process/usage"

// ExtensionTunnelProcess is the name of the extension with TunnelOpenParams.ProcessID.
// Other servers would ignore it, and connect to their own machine.
const ExtensionTunnelProcess = "tunnel/process"

// ExtensionRemoveLink is the name of the extension with RemoveParams.RemoveLink. Other servers
// would ignore the member, and refuse the link.
const ExtensionRemoveLink = "fs/remove/link"

// ExtensionEntryAttributes is the name of the extension with
// ReadDirectoryParams.Attributes and WalkOptions.Attributes. Other servers would
// ignore them.
const ExtensionEntryAttributes = "fs/readDirectory/attributes"

// ExtensionTunnelProcessPath is the name of the extension with TunnelOpenParams.Path together
// with ProcessID, and with a ProcessID that names a detached process.
const ExtensionTunnelProcessPath = "tunnel/processPath"

// Notifications from server to client.
const (
	NotifyProcessOutput = "process/output"
	NotifyProcessExited = "process/exited"
	NotifyProcessClosed = "process/closed"
	NotifyHTTPBodyDelta = "http/request/bodyDelta"
	// NotifyMissingChanged is known to later releases of Codex CLI. It follows only
	// a request for it.
	NotifyMissingChanged = "fs/missingChanged"
	// NotifyFSChanged is known only to this server. It is sent only after fs/watch.
	NotifyFSChanged = "fs/changed"
	// NotifyPolicyDecision reports the decision about a host.
	NotifyPolicyDecision = "network/policyDecision"
)

// MethodPolicyRequest is the only request from server to client
// (docs/spec/network.md §4.5).
const MethodPolicyRequest = "network/policyRequest"

// Error codes (docs/spec/wire.md §2.2).
const (
	CodeInvalidRequest  = -32600
	CodeMethodNotFound  = -32601
	CodeInvalidParams   = -32602
	CodeInternal        = -32603
	CodeNotFound        = -32004
	CodeSessionAttached = -32010
)

// Limits that the wire protocol itself names (docs/spec/wire.md §10).
const (
	// MaxReadFileBytes is the largest file that fs/readFile returns whole.
	MaxReadFileBytes = 512 << 20
	// MaxBlockBytes is the largest len of fs/readBlock and the largest
	// chunk of fs/writeBlock.
	MaxBlockBytes = 1 << 20
	// MaxConfigPaths is how many paths of keys each list of environmentConfig/read may have.
	// MaxConfigKeys is how many keys a path may have. Codex CLI sends one path with one key.
	MaxConfigPaths = 1024
	MaxConfigKeys  = 64
	// MaxCapabilityRoots is the most roots that capabilityRoots/discoverV1 accepts.
	MaxCapabilityRoots = 128
	// MaxArchivePaths is the most paths that fs/openArchive accepts, and
	// MaxArchivePatterns the most patterns.
	MaxArchivePaths    = 65_536
	MaxArchivePatterns = 1024
	// MaxArchives is how many archives a connection may have open.
	MaxArchives = 8
	// MaxHandleIDBytes is the longest handleId of fs/open.
	MaxHandleIDBytes = 32
	// MaxHandleName is the longest handle of a detached process, in bytes.
	MaxHandleName = 64
	// MaxStartID is the longest Detach.StartID in bytes.
	MaxStartID = 64
	// MaxOutputChunk is the most output that one process/output carries.
	MaxOutputChunk = 64 << 10
)
