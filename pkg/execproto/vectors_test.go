package execproto

import (
	"encoding/json"
	"reflect"
)

var fullEnvironment = EnvironmentInfo{
	Shell: Shell{"sh", "/bin/sh"}, Cwd: "file:///", TempDir: "file:///tmp", UserHomeDir: "file:///home/u", PlatformOS: "linux",
	ExecutorVersion: "1", TemporaryDirectories: []string{"file:///t"},
	Capabilities: Capabilities{true, true, true, true, true, true, true, true, true, true, true, true, true},
}

const (
	fullEnvironmentText = `{"shell":{"name":"sh","path":"/bin/sh"},"cwd":"file:///","tempDir":"file:///tmp","userHomeDir":"file:///home/u",` +
		`"platformOs":"linux","executorVersion":"1","temporaryDirectories":["file:///t"],"capabilities":` + allCapabilities + `}`
	allCapabilities = `{"fileWriteStreaming":true,"sandboxedFileStreaming":true,"linuxRootWritePreservesDevices":true,` +
		`"linuxApprovedRootWritePreservesRestrictions":true,"environmentConfigRead":true,"fsWatchMissing":true,"httpHeaderEnvVars":true,` +
		`"capabilityDiscoverySandbox":true,"capabilityDiscoveryV2":true,"shellSnapshotV2":true,"networkProxyLaunch":true,"networkProxyReviewDomains":true,"networkProxyTransparentTcp":true}`
)

const leastProxy = `{"enabled":false,"enableSocks5":false,"enableSocks5Udp":false,"allowUpstreamProxy":false,` +
	`"dangerouslyAllowAllUnixSockets":false,"mode":"full","allowLocalBinding":false}`

// vectors contain the exact spelling of every type. Append writes each text for
// its object, and Decode reads the object from the text. Together the vectors of
// a type have all its members.
var vectors = []vector{
	{&InitializeParams{ClientName: "c"}, `{"clientName":"c","resumeSessionId":null}`},
	{&InitializeParams{ClientName: "c", ResumeSessionID: new("s"), TakeOver: true},
		`{"clientName":"c","resumeSessionId":"s","takeOver":true}`},
	{&InitializeResult{SessionID: "s"}, `{"sessionId":"s"}`},
	{&InitializeResult{SessionID: "s", Extensions: []string{"a", "b"}, EnvironmentInfo: &fullEnvironment},
		`{"sessionId":"s","extensions":["a","b"],"environmentInfo":` + fullEnvironmentText + `}`},
	{&fullEnvironment, fullEnvironmentText},
	{&EnvironmentInfo{TemporaryDirectories: []string{}}, `{"shell":{"name":"","path":""},"temporaryDirectories":[],` +
		`"capabilities":{"fileWriteStreaming":false,"sandboxedFileStreaming":false,"httpHeaderEnvVars":false}}`},
	{&Shell{"a", "b"}, `{"name":"a","path":"b"}`},
	{&Capabilities{true, true, true, true, true, true, true, true, true, true, true, true, true}, allCapabilities},
	{&StatusResult{"ready"}, `{"status":"ready"}`},
	{&Empty{}, `{}`},

	{&WatchMissingParams{1<<64 - 1, []string{"file:///a"}, new("file:///b")},
		`{"watchId":18446744073709551615,"missing":["file:///a"],"present":"file:///b"}`},
	{&WatchMissingParams{Missing: []string{}}, `{"watchId":0,"missing":[],"present":null}`},
	{&WatchMissingResult{true}, `{"watching":true}`},
	{&MissingChanged{7}, `{"watchId":7}`},
	{&WatchParams{WatchID: 7, Path: "file:///a", Recursive: true, Sandbox: json.RawMessage(`{}`)},
		`{"watchId":7,"path":"file:///a","recursive":true,"sandbox":{}}`},
	{&WatchParams{Path: "/a"}, `{"watchId":0,"path":"/a","recursive":false}`},
	{&UnwatchParams{7}, `{"watchId":7}`},
	{&WatchEvent{"file:///a", WatchCreated, true}, `{"path":"file:///a","kind":"created","isDirectory":true}`},
	{&Changed{WatchID: 7, Seq: 1, Events: []WatchEvent{{"file:///a", WatchCreated, true}, {"file:///a/b", WatchRemoved, false}}},
		`{"watchId":7,"seq":1,"events":[{"path":"file:///a","kind":"created","isDirectory":true},{"path":"file:///a/b","kind":"removed"}]}`},
	{&WatchPortsParams{WatchID: 7}, `{"watchId":7}`},
	{&WatchPortsParams{7, true}, `{"watchId":7,"allSessions":true}`},
	{&Port{"s", "p", 1, "node x", "::", 80, true},
		`{"session":"s","processId":"p","pid":1,"command":"node x","host":"::","port":80,"inside":true}`},
	{&Ports{7, 1, []Port{}, false}, `{"watchId":7,"seq":1,"ports":[]}`},
	{&Ports{7, 2, []Port{{ProcessID: "p", PID: 1, Host: "127.0.0.1", Port: 1}}, true},
		`{"watchId":7,"seq":2,"ports":[{"processId":"p","pid":1,"command":"","host":"127.0.0.1","port":1}],"truncated":true}`},
	{&Changed{WatchID: 7, Seq: 2, Events: []WatchEvent{}, Overflow: true, Ended: "why"},
		`{"watchId":7,"seq":2,"events":[],"overflow":true,"ended":"why"}`},
	{&ConfigReadParams{"file:///", [][]string{{"a", "b"}, {"c"}}, [][]string{}},
		`{"cwd":"file:///","configPaths":[["a","b"],["c"]],"requirementsPaths":[]}`},
	{&ConfigLayer{"s", "file:///", "a = 1\n"}, `{"source":"s","baseDir":"file:///","toml":"a = 1\n"}`},
	{&ConfigStack{[]ConfigLayer{{}, {}}, 1},
		`{"layers":[{"source":"","baseDir":"","toml":""},{"source":"","baseDir":"","toml":""}],"cloudInsertionIndex":1}`},
	{&ConfigReadResult{nil, "file:///c", nil, ConfigStack{[]ConfigLayer{}, 0}, ConfigStack{[]ConfigLayer{}, 0}},
		`{"userHomeDir":null,"codexHomeDir":"file:///c","hostname":null,"config":{"layers":[],"cloudInsertionIndex":0},` +
			`"requirements":{"layers":[],"cloudInsertionIndex":0}}`},
	{&ConfigReadResult{new("file:///h"), "file:///c", new("n"), ConfigStack{[]ConfigLayer{{}}, 1}, ConfigStack{[]ConfigLayer{}, 0}},
		`{"userHomeDir":"file:///h","codexHomeDir":"file:///c","hostname":"n","config":{"layers":[` +
			`{"source":"","baseDir":"","toml":""}],"cloudInsertionIndex":1},"requirements":{"layers":[],"cloudInsertionIndex":0}}`},

	{&DiscoverParams{[]DiscoverRoot{{"a", "file:///a", []byte(`{"permissions":{}}`)}, {ID: "b", Path: "/b"}}},
		`{"roots":[{"id":"a","path":"file:///a","sandbox":{"permissions":{}}},{"id":"b","path":"/b"}]}`},
	{&DiscoverRoot{"a", "/a", []byte(`{}`)}, `{"id":"a","path":"/a","sandbox":{}}`},
	{&CapabilityFile{"file:///a", "x"}, `{"path":"file:///a","contents":"x"}`},
	{&CapabilityPlugin{CapabilityFile{"m", ""}, &CapabilityFile{"c", ""}, &CapabilityFile{"d", ""}},
		`{"manifest":{"path":"m","contents":""},"mcpConfig":{"path":"c","contents":""},"appsConfig":{"path":"d","contents":""}}`},
	{&CapabilityPlugin{}, `{"manifest":{"path":"","contents":""},"mcpConfig":null,"appsConfig":null}`},
	{&CapabilitySkill{CapabilityFile{"s", "t"}, &CapabilityFile{"y", ""}},
		`{"instructions":{"path":"s","contents":"t"},"metadata":{"path":"y","contents":""}}`},
	{&CapabilityRoot{ID: "a", Path: "/a", Skills: []CapabilitySkill{}, NamespaceManifests: []CapabilityFile{}, Warnings: []string{}},
		`{"id":"a","path":"/a","plugin":null,"skills":[],"namespaceManifests":[],"warnings":[],"error":null}`},
	{&CapabilityRoot{"a", "/a", &CapabilityPlugin{}, []CapabilitySkill{{}}, []CapabilityFile{{}}, []string{"w"}, new("e")},
		`{"id":"a","path":"/a","plugin":{"manifest":{"path":"","contents":""},"mcpConfig":null,"appsConfig":null},"skills":[{"instructions":` +
			`{"path":"","contents":""},"metadata":null}],"namespaceManifests":[{"path":"","contents":""}],"warnings":["w"],"error":"e"}`},
	{&DiscoverResult{[]CapabilityRoot{}}, `{"roots":[]}`},

	{&Denial{"network", "a.test", 443, "https_connect", 2, "not_allowed", "unlisted", "no pattern"},
		`{"kind":"network","host":"a.test","port":443,"protocol":"https_connect","count":2,"reason":"not_allowed","rule":"unlisted","detail":"no pattern"}`},
	{&ShellSnapshot{"s", SnapshotShell{"bash", "/bin/bash"}}, `{"scopeId":"s","shell":{"name":"bash","path":"/bin/bash"}}`},
	{&SnapshotShell{"bash", "/bin/bash"}, `{"name":"bash","path":"/bin/bash"}`},
	{&InstalledParams{"file:///", []byte(`{"permissions":{}}`)}, `{"cwd":"file:///","sandbox":{"permissions":{}}}`},
	{&SkillTool{Type: "t", Value: "v"}, `{"type":"t","value":"v","description":null,"transport":null,"command":null,"url":null,` +
		`"oauthCallbackPort":null}`},
	{&SkillTool{"t", "v", new("d"), new("s"), new("c"), new("u"), new(uint64(7))},
		`{"type":"t","value":"v","description":"d","transport":"s","command":"c","url":"u","oauthCallbackPort":7}`},
	{&SkillDependencies{[]SkillTool{}}, `{"tools":[]}`},
	{&SkillPolicy{nil, []string{}}, `{"allowImplicitInvocation":null,"products":[]}`},
	{&SkillPolicy{new(true), []string{"p"}}, `{"allowImplicitInvocation":true,"products":["p"]}`},
	{&SkillRoot{"a", "file:///a"}, `{"id":"a","path":"file:///a"}`},
	{&InstalledSkill{Name: "n", Description: "d", Path: "p"},
		`{"name":"n","description":"d","shortDescription":null,"path":"p","dependencies":null,"policy":null}`},
	{&InstalledSkill{"n", "d", new("s"), "p", &SkillRoot{"a", "b"}, &SkillDependencies{[]SkillTool{}}, &SkillPolicy{nil, []string{}}},
		`{"name":"n","description":"d","shortDescription":"s","path":"p","discoveryRoot":{"id":"a","path":"b"},` +
			`"dependencies":{"tools":[]},"policy":{"allowImplicitInvocation":null,"products":[]}}`},
	{&InstalledPlugin{"a@m", "A", new("r"), "1", "file:///a", CapabilityPlugin{Manifest: CapabilityFile{"m", "x"}}, []InstalledSkill{{}}},
		`{"id":"a@m","displayName":"A","remotePluginId":"r","version":"1","root":"file:///a","files":{"manifest":` +
			`{"path":"m","contents":"x"},"mcpConfig":null,"appsConfig":null},"skills":[{"name":"","description":"","shortDescription":null,` +
			`"path":"","dependencies":null,"policy":null}]}`},
	{&InstalledResult{[]InstalledPlugin{}, []InstalledSkill{}, []string{}}, `{"plugins":[],"skills":[],"warnings":[]}`},

	{&TerminalSize{1, 65535}, `{"rows":1,"cols":65535}`},
	{&EnvPolicy{"core", true, []string{"x"}, map[string]string{"b": "2", "a": "1"}, []string{}},
		`{"inherit":"core","ignoreDefaultExcludes":true,"exclude":["x"],"set":{"a":"1","b":"2"},"includeOnly":[]}`},
	{&StartMetadata{}, `{}`},
	{&StartMetadata{"t", "c"}, `{"threadId":"t","toolCallId":"c"}`},
	{&StartParams{ProcessID: "p", Argv: []string{"a"}, Cwd: "/", Env: map[string]string{}},
		`{"processId":"p","argv":["a"],"cwd":"/","env":{},"tty":false,"arg0":null,"pipeStdin":false,"envPolicy":null,` +
			`"sandbox":null,"enforceManagedNetwork":false}`},
	{&StartParams{
		ProcessID: "p", Argv: []string{"a", "b"}, Cwd: "/", Env: map[string]string{"A": "1"}, TTY: true, Arg0: new("sh"), PipeStdin: true,
		EnvPolicy: &EnvPolicy{"all", false, []string{}, map[string]string{}, []string{"x"}}, Sandbox: []byte(`{"permissions":{}}`),
		EnforceManagedNetwork: true, ManagedNetwork: &ManagedNetwork{LoopbackPorts: []uint16{1, 65535}},
		NetworkProxy: &NetworkProxyLaunch{Proxy: NetworkProxy{Mode: NetworkFull}}, Metadata: &StartMetadata{ThreadID: "t"},
		ShellSnapshot: &ShellSnapshot{"s", SnapshotShell{"sh", "/s"}}, Size: &TerminalSize{2, 3}, OutputWindow: 65536,
		Detach: &Detach{"s"}, Retain: &Retain{Bytes: 1, WhenFull: WhenFullDropOldest}, Limits: &ProcessLimits{WallMS: 5, Require: true},
	}, `{"processId":"p","argv":["a","b"],"cwd":"/","env":{"A":"1"},"tty":true,"arg0":"sh","pipeStdin":true,` +
		`"envPolicy":{"inherit":"all","ignoreDefaultExcludes":false,"exclude":[],"set":{},"includeOnly":["x"]},` +
		`"sandbox":{"permissions":{}},"enforceManagedNetwork":true,` +
		`"managedNetwork":{"loopbackPorts":[1,65535],"allowLocalBinding":false},` +
		`"networkProxy":{"proxy":` + leastProxy + `,"auditMetadata":{}},"metadata":{"threadId":"t"},` +
		`"shellSnapshot":{"scopeId":"s","shell":{"name":"sh","path":"/s"}},"size":{"rows":2,"cols":3},"outputWindow":65536,` +
		`"detach":{"startId":"s"},"retain":{"bytes":1,"whenFull":"dropOldest"},"limits":{"wallMs":5,"require":true}}`},
	{&StartResult{ProcessID: "p\""}, `{"processId":"p\""}`},
	{&StartResult{"p", "none", []HeldLimit{{"pids", 5, HeldByCgroup, ""}, {"wallMs", 7, HeldByNone, "why"}}},
		`{"processId":"p","sandboxType":"none","limits":[{"name":"pids","value":5,"by":"cgroup"},` +
			`{"name":"wallMs","value":7,"by":"none","reason":"why"}]}`},
	{&ProcessLimits{}, `{}`},
	{&ProcessLimits{1, 2, 3, 4, 5, 6, 7, 8, 9, true},
		`{"memoryBytes":1,"swapBytes":2,"pids":3,"cpuMillis":4,"cpuSeconds":5,"wallMs":6,"outputBytes":7,"fileBytes":8,"openFiles":9,"require":true}`},
	{&HeldLimit{"openFiles", 64, HeldByRlimit, ""}, `{"name":"openFiles","value":64,"by":"rlimit"}`},
	{&HeldLimit{"pids", 1, HeldByNone, "why"}, `{"name":"pids","value":1,"by":"none","reason":"why"}`},
	{&ProcessResources{}, `{"wallMs":0,"userMs":0,"systemMs":0,"maxRssBytes":0}`},
	{&ProcessResources{1, 2, 3, 4, new(uint64(5)), new(uint64(6)), new(uint64(7)), new(uint64(8))},
		`{"wallMs":1,"userMs":2,"systemMs":3,"maxRssBytes":4,"peakMemoryBytes":5,"ioReadBytes":6,"ioWriteBytes":7,"processes":8}`},
	{&ReadParams{ProcessID: "p"}, `{"processId":"p","afterSeq":null,"maxBytes":null,"waitMs":null}`},
	{&ReadParams{"p", new(uint64(1<<64 - 1)), new(uint64(1<<64 - 1)), new(uint64(1<<64 - 1)), true, true, true},
		`{"processId":"p","afterSeq":18446744073709551615,"maxBytes":18446744073709551615,` +
			`"waitMs":18446744073709551615,"consume":true,"details":true,"times":true}`},
	{&OutputChunk{1, Stderr, []byte("a"), 9}, `{"seq":1,"stream":"stderr","chunk":"YQ==","elapsedSeconds":9}`},
	{&OutputChunk{1, Stderr, []byte("a"), 0}, `{"seq":1,"stream":"stderr","chunk":"YQ=="}`},
	{&ReadResult{Chunks: []OutputChunk{}, NextSeq: 1},
		`{"chunks":[],"nextSeq":1,"exited":false,"exitCode":null,"closed":false,"failure":null,"sandboxDenied":false}`},
	{&ReadResult{[]OutputChunk{{1, Stdout, []byte("a"), 0}, {2, PTY, []byte{}, 0}}, 5, true, new(-1), true, new("broke"), true, &EventRange{2, 9}, "disk", CauseMemory, &ProcessResources{}},
		`{"chunks":[{"seq":1,"stream":"stdout","chunk":"YQ=="},{"seq":2,"stream":"pty","chunk":""}],"nextSeq":5,"exited":true,` +
			`"exitCode":-1,"closed":true,"failure":"broke","sandboxDenied":true,"dropped":{"first":2,"last":9},"waiting":"disk","cause":"memory",` +
			`"resources":{"wallMs":0,"userMs":0,"systemMs":0,"maxRssBytes":0}}`},
	{&Detach{"s"}, `{"startId":"s"}`},
	{&Retain{1, 2, WhenFullWait}, `{"bytes":1,"seconds":2,"whenFull":"wait"}`},
	{&EventRange{1, 1<<64 - 1}, `{"first":1,"last":18446744073709551615}`},
	{&DetachedProcess{"detached/p", []string{"a"}, "file:///", true, 5, true, new(-1), true, 6, "f", 7, 8, "limit", Retain{1, 2, WhenFullWait}, &ProcessUsage{}},
		`{"processId":"detached/p","argv":["a"],"cwd":"file:///","tty":true,"startedAtMs":5,"exited":true,"exitCode":-1,"closed":true,` +
			`"endedAtMs":6,"failure":"f","retained":7,"firstSeq":8,"waiting":"limit","retain":{"bytes":1,"seconds":2,"whenFull":"wait"},` +
			`"usage":{"userMs":0,"systemMs":0,"memoryBytes":0,"processes":0}}`},
	{&ListParams{}, `{}`},
	{&ListParams{true, ListServer}, `{"usage":true,"scope":"server"}`},
	{&ProcessUsage{1, 2, 3, 4}, `{"userMs":1,"systemMs":2,"memoryBytes":3,"processes":4}`},
	{&DetachedResult{[]DetachedProcess{}}, `{"processes":[]}`},
	{&WriteParams{ProcessID: "p", Chunk: []byte("x")}, `{"processId":"p","chunk":"eA=="}`},
	{&WriteParams{"p", []byte{}, new("s")}, `{"processId":"p","chunk":"","writeId":"s"}`},
	{&WriteResult{WriteStdinClosed}, `{"status":"stdinClosed"}`},
	{&SignalParams{"p", SignalUSR2, ""}, `{"processId":"p","signal":"usr2"}`},
	{&SignalParams{"p", SignalUSR2, "s"}, `{"processId":"p","signal":"usr2","session":"s"}`},
	{&TerminateParams{"p", ""}, `{"processId":"p"}`},
	{&TerminateParams{"p", "s"}, `{"processId":"p","session":"s"}`},
	{&ProcessParams{"p"}, `{"processId":"p"}`},
	{&ProcessAck{"p", 1<<53 - 1}, `{"processId":"p","seq":9007199254740991}`},
	{&TerminateResult{true}, `{"running":true}`},
	{&ResizeParams{"p", 24, 80}, `{"processId":"p","rows":24,"cols":80}`},
	{&ProcessInfo{"p", []string{"a"}, 5, true, new(-1), true, true, CauseExit, &ProcessResources{WallMS: 1}, &ProcessUsage{UserMS: 1}, "s", "c", "o"},
		`{"processId":"p","argv":["a"],"startedAtMs":5,"exited":true,"exitCode":-1,"closed":true,"tty":true,"cause":"exit",` +
			`"resources":{"wallMs":1,"userMs":0,"systemMs":0,"maxRssBytes":0},` +
			`"usage":{"userMs":1,"systemMs":0,"memoryBytes":0,"processes":0},"session":"s","client":"c","principal":"o"}`},
	{&ListResult{[]ProcessInfo{}, 3}, `{"processes":[],"omitted":3}`},
	{&ListResult{Processes: []ProcessInfo{{ProcessID: "p", Argv: []string{"a"}}}},
		`{"processes":[{"processId":"p","argv":["a"],"startedAtMs":0,"exited":false,"exitCode":null,"closed":false,"tty":false}]}`},
	{&OutputNotification{"p", 1, PTY, []byte("x")}, `{"processId":"p","seq":1,"stream":"pty","chunk":"eA=="}`},
	{&ExitedNotification{ProcessID: "p", Seq: 2, ExitCode: 137}, `{"processId":"p","seq":2,"exitCode":137,"sandboxDenied":false}`},
	{&ExitedNotification{"p", 2, -1, true, &SandboxRefusal{[]byte(`{"type":"disabled"}`), "no"}, []Denial{{Kind: "network", Count: 1}}, CauseSignal, &ProcessResources{}},
		`{"processId":"p","seq":2,"exitCode":-1,"sandboxDenied":true,"sandboxRefusal":{"policy":{"type":"disabled"},"reason":"no"},` +
			`"denials":[{"kind":"network","host":"","port":0,"protocol":"","count":1,"reason":""}],"cause":"signal",` +
			`"resources":{"wallMs":0,"userMs":0,"systemMs":0,"maxRssBytes":0}}`},
	{&SandboxRefusal{Reason: "no"}, `{"policy":null,"reason":"no"}`},
	{&SandboxRefusal{[]byte(`{"type":"disabled"}`), "no"}, `{"policy":{"type":"disabled"},"reason":"no"}`},
	{&ClosedNotification{"p", 3}, `{"processId":"p","seq":3}`},

	{&ManagedNetwork{}, `{"allowLocalBinding":false}`},
	{&ManagedNetwork{[]uint16{}, true, []string{"/s"}, true},
		`{"loopbackPorts":[],"allowLocalBinding":true,"allowUnixSockets":["/s"],"dangerouslyAllowAllUnixSockets":true}`},
	{&NetworkProxy{Mode: NetworkFull}, leastProxy},
	{&NetworkProxy{
		true, true, true, true, true, true, NetworkLimited, map[string]DomainPermission{"b": DomainDeny, "a": DomainNone, "c": DomainAllow},
		[]string{"r"}, map[string]DomainPermission{"/s": DomainAllow}, true,
	}, `{"enabled":true,"enableSocks5":true,"enableSocks5Udp":true,"allowUpstreamProxy":true,"dangerouslyAllowAllUnixSockets":true,` +
		`"mode":"limited","domains":{"a":"none","b":"deny","c":"allow"},"reviewDomains":["r"],"unixSockets":{"/s":"allow"},"allowLocalBinding":true,"transparentTcp":true}`},
	{&NetworkProxyLaunch{NetworkProxy{Mode: NetworkFull}, AuditMetadata{Slug: "s"}, "e", "x", new(uint64(5))},
		`{"proxy":` + leastProxy + `,"auditMetadata":{"slug":"s"},"environmentId":"e","executionId":"x","policyDecisionTimeoutMs":5}`},
	{&AuditMetadata{"a", "b", "c", "d", "e", "f", "g", "h", "i"}, `{"conversationId":"a","appVersion":"b","userAccountId":"c",` +
		`"authMode":"d","originator":"e","userEmail":"f","terminalType":"g","model":"h","slug":"i"}`},
	{&PolicyRequestParams{"p", PolicyRequest{"http", "h", 80}}, `{"processId":"p","request":{"protocol":"http","host":"h","port":80}}`},
	{&PolicyRequest{"http", "h", 80}, `{"protocol":"http","host":"h","port":80}`},
	{&PolicyResult{PolicyDecision{Type: "allow"}}, `{"decision":{"type":"allow"}}`},
	{&PolicyDecision{"deny", new("r")}, `{"type":"deny","reason":"r"}`},
	{&PolicyDecisionNotification{"p", "t", "domain", "allow", "s", "r", "http", "h", 80, "GET", "c", true},
		`{"processId":"p","timestamp":"t","scope":"domain","decision":"allow","source":"s","reason":"r","protocol":"http",` +
			`"host":"h","port":80,"method":"GET","client":"c","policyOverride":true}`},

	{&PathParams{Path: "/"}, `{"path":"/"}`},
	{&PathParams{"/", []byte(`{}`)}, `{"path":"/","sandbox":{}}`},
	{&LinkPathParams{"/", new(false), []byte(`{}`)}, `{"path":"/","followSymlinks":false,"sandbox":{}}`},
	{&ReadFileResult{[]byte("hello")}, `{"dataBase64":"aGVsbG8="}`},
	{&OpenParams{HandleID: "h", Path: "/f", Mode: OpenRead}, `{"handleId":"h","path":"/f","mode":"read"}`},
	{&OpenParams{"h", "/f", OpenReplace, true, new(false), new(uint32(0o600)), []byte(`{}`)},
		`{"handleId":"h","path":"/f","mode":"replace","atomic":true,"followSymlinks":false,"permissions":384,"sandbox":{}}`},
	{&OpenResult{"h"}, `{"handleId":"h"}`},
	{&ReadBlockParams{"h", 5, 1 << 20}, `{"handleId":"h","offset":5,"len":1048576}`},
	{&ReadBlockResult{[]byte("x"), true}, `{"chunk":"eA==","eof":true}`},
	{&WriteBlockParams{"h", 3, []byte("hi")}, `{"handleId":"h","offset":3,"chunk":"aGk="}`},
	{&HandleParams{"h"}, `{"handleId":"h"}`},
	{&WriteFileParams{"/f", Base64Text("aGk="), new(false), true, new(uint32(0)), []byte(`{}`)},
		`{"path":"/f","dataBase64":"aGk=","followSymlinks":false,"atomic":true,"permissions":0,"sandbox":{}}`},
	{&CreateDirectoryParams{Path: "/d"}, `{"path":"/d","recursive":null}`},
	{&CreateDirectoryParams{"/d", new(false), new(false), new(uint32(0o700)), []byte(`{}`)},
		`{"path":"/d","recursive":false,"followSymlinks":false,"permissions":448,"sandbox":{}}`},
	{&Metadata{true, true, true, 3, 4, -5},
		`{"isDirectory":true,"isFile":true,"isSymlink":true,"size":3,"createdAtMs":4,"modifiedAtMs":-5}`},
	{&PathResult{"file:///x"}, `{"path":"file:///x"}`},
	{&DirectoryEntry{FileName: "a"}, `{"fileName":"a","isDirectory":false,"isFile":false}`},
	{&DirectoryEntry{"a", true, true, true, nil}, `{"fileName":"a","isDirectory":true,"isFile":true,"isLossy":true}`},
	{&DirectoryEntry{FileName: "a", Attributes: &Attributes{Kind: "symlink", Target: "b"}},
		`{"fileName":"a","isDirectory":false,"isFile":false,"attributes":{"kind":"symlink","size":0,"permissions":0,"modifiedAtMs":0,"target":"b"}}`},
	{&ReadDirectoryParams{Path: "/d"}, `{"path":"/d"}`},
	{&ReadDirectoryParams{"/d", true, []byte(`{}`)}, `{"path":"/d","attributes":true,"sandbox":{}}`},
	{&ReadDirectoryResult{[]DirectoryEntry{{"\uFFFD", true, true, true, nil}}},
		`{"entries":[{"fileName":"` + "\uFFFD" + `","isDirectory":true,"isFile":true,"isLossy":true}]}`},
	{&RemoveParams{Path: "/d", Recursive: new(true)}, `{"path":"/d","recursive":true,"force":null}`},
	{&RemoveParams{"/d", nil, new(false), new(false), true, []byte(`{}`)},
		`{"path":"/d","recursive":null,"force":false,"followSymlinks":false,"removeLink":true,"sandbox":{}}`},
	{&CopyResult{}, `{}`},
	{&CopyResult{&LeftOut{2, []string{"file:///a", "file:///b"}}}, `{"leftOut":{"count":2,"paths":["file:///a","file:///b"]}}`},
	{&LeftOut{1, []string{}}, `{"count":1,"paths":[]}`},
	{&CopyParams{"/a", "/b", true, []byte(`{}`)}, `{"sourcePath":"/a","destinationPath":"/b","recursive":true,"sandbox":{}}`},
	{&Attributes{"file", 3, 0o644, -5, "", false}, `{"kind":"file","size":3,"permissions":420,"modifiedAtMs":-5}`},
	{&Attributes{Kind: "directory", MountPoint: true}, `{"kind":"directory","size":0,"permissions":0,"modifiedAtMs":0,"mountPoint":true}`},
	{&Attributes{"symlink", 1, 0o777, 7, "x", false}, `{"kind":"symlink","size":1,"permissions":511,"modifiedAtMs":7,"target":"x"}`},
	{&NamedAttributes{"l", true, Attributes{"symlink", 1, 0o777, 0, "x", false}},
		`{"fileName":"l","isLossy":true,"kind":"symlink","size":1,"permissions":511,"modifiedAtMs":0,"target":"x"}`},
	{&ListAttributesResult{[]NamedAttributes{}}, `{"entries":[]}`},
	{&ListAttributesResult{[]NamedAttributes{{FileName: "p", Attributes: Attributes{Kind: "other"}}}},
		`{"entries":[{"fileName":"p","kind":"other","size":0,"permissions":0,"modifiedAtMs":0}]}`},
	{&SetAttributesParams{"/a", new(uint32(0o600)), new(int64(-1)), new(false), []byte(`{}`)},
		`{"path":"/a","permissions":384,"modifiedAtMs":-1,"followSymlinks":false,"sandbox":{}}`},
	{&OpenArchiveParams{
		HandleID: "h", Path: "file:///a", Mode: ArchiveRead, Exclude: []string{"*.o"}, Paths: []string{"b/c"}, After: "b", List: true, Checksums: true, Times: true,
	}, `{"handleId":"h","path":"file:///a","mode":"read","exclude":["*.o"],"paths":["b/c"],"after":"b","list":true,"checksums":true,"times":true}`},
	{&OpenArchiveParams{
		HandleID: "h", Path: "file:///a", Mode: ArchiveExtract, Preserve: true, Owners: true, FollowSymlinks: new(false), Sandbox: []byte(`{}`),
	}, `{"handleId":"h","path":"file:///a","mode":"extract","preserve":true,"owners":true,"followSymlinks":false,"sandbox":{}}`},
	{&WriteBlockResult{}, `{}`},
	{&WriteBlockResult{[]ArchiveFailure{{"b/c", "no"}}, 7}, `{"failures":[{"path":"b/c","message":"no"}],"unnamed":7}`},
	{&ArchiveFailure{"b", "no"}, `{"path":"b","message":"no"}`},
	{&SymlinkParams{"/a", "../b", true, new(false), []byte(`{}`)},
		`{"path":"/a","target":"../b","overwrite":true,"followSymlinks":false,"sandbox":{}}`},
	{&RenameParams{"/a", "/b", true, []byte(`{}`)}, `{"sourcePath":"/a","destinationPath":"/b","overwrite":true,"sandbox":{}}`},
	{&WalkOptions{1, 2, 3, true, true, true},
		`{"maxDepth":1,"maxDirectories":2,"maxEntries":3,"followDirectorySymlinks":true,"pruneHiddenDirectories":true,"attributes":true}`},
	{&WalkParams{"/", WalkOptions{MaxEntries: 3}, []byte(`{}`)},
		`{"path":"/","options":{"maxDepth":0,"maxDirectories":0,"maxEntries":3,"followDirectorySymlinks":false},"sandbox":{}}`},
	{&WalkEntry{"file:///a", "file", &Attributes{Kind: "file", Size: 1, Permissions: 2, ModifiedAtMS: 3}},
		`{"path":"file:///a","kind":"file","attributes":{"kind":"file","size":1,"permissions":2,"modifiedAtMs":3}}`},
	{&WalkEntry{Path: "file:///a", Kind: "file"}, `{"path":"file:///a","kind":"file"}`},
	{&WalkError{"file:///b", "no"}, `{"path":"file:///b","message":"no"}`},
	{&WalkResult{[]WalkEntry{{Path: "file:///a", Kind: "file"}}, []WalkError{{"file:///b", "no"}}, true},
		`{"entries":[{"path":"file:///a","kind":"file"}],"errors":[{"path":"file:///b","message":"no"}],"truncated":true}`},

	{&HTTPHeader{"a", "b", new("s")}, `{"name":"a","value":"b","valueEnvVar":"s"}`},
	{&HTTPRequestParams{Method: "GET", URL: "http://x/", RequestID: "r", RedirectPolicy: RedirectFollow},
		`{"method":"GET","url":"http://x/","bodyBase64":null,"timeoutMs":null,"requestId":"r","streamResponse":false,"redirectPolicy":"follow"}`},
	{&HTTPRequestParams{
		"GET", "http://x/", []HTTPHeader{{Name: "a", Value: "b"}}, []byte("hi"), new(uint64(1<<64 - 1)), "r", true, RedirectStop, 16,
	},
		`{"method":"GET","url":"http://x/","headers":[{"name":"a","value":"b"}],"bodyBase64":"aGk=","timeoutMs":18446744073709551615,` +
			`"requestId":"r","streamResponse":true,"redirectPolicy":"stop","deltaWindow":16}`},
	{&HTTPRequestResult{200, []HTTPHeader{{Name: "a", Value: "b"}}, []byte("x")},
		`{"status":200,"headers":[{"name":"a","value":"b"}],"bodyBase64":"eA=="}`},
	{&HTTPAck{"r", 2}, `{"requestId":"r","seq":2}`},
	{&HTTPBodyDelta{RequestID: "r", Seq: 1, Delta: []byte("x")}, `{"requestId":"r","seq":1,"deltaBase64":"eA==","done":false,"error":null}`},
	{&TunnelOpenParams{TunnelID: 1, Host: "localhost", Port: 8080, Window: 9},
		`{"tunnelId":1,"host":"localhost","port":8080,"window":9}`},
	{&TunnelOpenParams{TunnelID: 1, Path: "/s"}, `{"tunnelId":1,"path":"/s","window":0}`},
	{&TunnelOpenParams{TunnelID: 1, Port: 80, ProcessID: "p", Session: "s", Window: 9},
		`{"tunnelId":1,"port":80,"processId":"p","session":"s","window":9}`},
	{&TunnelOpenParams{TunnelID: 1, Port: 80, ProcessID: "p", Window: 9}, `{"tunnelId":1,"port":80,"processId":"p","window":9}`},
	{&TunnelOpenResult{Window: 7}, `{"window":7}`},
	{&TunnelOpenResult{0, TunnelRefused, "connection refused"}, `{"window":0,"failure":"refused","reason":"connection refused"}`},
	{&TunnelData{1, 2, []byte("x"), true}, `{"tunnelId":1,"offset":2,"data":"eA==","end":true}`},
	{&TunnelData{TunnelID: 1, Data: []byte{}}, `{"tunnelId":1,"offset":0,"data":""}`},
	{&TunnelAck{1, 2}, `{"tunnelId":1,"position":2}`},
	{&TunnelClose{TunnelID: 1}, `{"tunnelId":1}`},
	{&TunnelClose{1, "broke"}, `{"tunnelId":1,"reason":"broke"}`},
	{&TunnelListenParams{1, "::1", 80, 9}, `{"listenerId":1,"host":"::1","port":80,"window":9}`},
	{&TunnelListenResult{Host: "::1", Port: 80}, `{"host":"::1","port":80}`},
	{&TunnelListenResult{Failure: TunnelInUse, Reason: "r"}, `{"failure":"inUse","reason":"r"}`},
	{&TunnelListener{1}, `{"listenerId":1}`},
	{&TunnelAccepted{1, 2, 3, "127.0.0.1:1"}, `{"listenerId":1,"tunnelId":2,"window":3,"peer":"127.0.0.1:1"}`},
	{&TunnelPosition{1, 2}, `{"tunnelId":1,"received":2}`},
	{&TunnelResume{[]TunnelPosition{{1, 2}}, []TunnelListener{{3}}}, `{"tunnels":[{"tunnelId":1,"received":2}],"listeners":[{"listenerId":3}]}`},
	{&HTTPBodyDelta{"r", 2, []byte{}, true, new("broke")}, `{"requestId":"r","seq":2,"deltaBase64":"","done":true,"error":"broke"}`},
}

type vector struct {
	object Object
	text   string
}

func (v vector) typeName() string { return reflect.TypeOf(v.object).Elem().Name() }

// zero returns a new object of the same type.
func (v vector) zero() Object {
	return reflect.New(reflect.TypeOf(v.object).Elem()).Interface().(Object)
}
