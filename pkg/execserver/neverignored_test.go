package execserver

import (
	"maps"
	"slices"
	"testing"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/sandbox/runner"
)

// withoutSandbox are the methods whose params have no sandbox. All other methods, including new
// ones, must refuse a sandbox that cannot be enforced.
var withoutSandbox = map[string]bool{
	execproto.MethodInitialize: true, execproto.MethodEnvironmentInfo: true, execproto.MethodEnvironmentStatus: true, execproto.MethodEnvironmentConfigRead: true,
	execproto.MethodProcessRead: true, execproto.MethodProcessWrite: true, execproto.MethodProcessSignal: true, execproto.MethodProcessTerminate: true,
	execproto.MethodProcessCloseStdin: true, execproto.MethodProcessResize: true, execproto.MethodProcessList: true, execproto.MethodProcessDetached: true,
	execproto.MethodProcessForget: true, execproto.MethodFSReadBlock: true, execproto.MethodFSWriteBlock: true, execproto.MethodFSClose: true,
	execproto.MethodFSWatchMissing: true, execproto.MethodFSUnwatch: true, execproto.MethodHTTPRequest: true,
	execproto.MethodTunnelOpen: true, execproto.MethodTunnelListen: true, execproto.MethodTunnelUnlisten: true, execproto.MethodTunnelResume: true,
	execproto.MethodTunnelWatchPorts: true, execproto.MethodTunnelUnwatch: true,
}

// TestASandboxIsNeverIgnored: a server without a launcher refuses every request with a sandbox,
// and carries out a request without confinement.
func TestASandboxIsNeverIgnored(t *testing.T) {
	_, url := newTestServer(t, Options{Sandbox: runner.Options{Launcher: "/nonexistent/launcher"}})
	p, _ := hello(t, url)
	confined := object{"permissions": object{"type": "managed", "network": "restricted", "file_system": object{"type": "restricted", "entries": []any{}}}}
	p.refuse("fs/readFile", object{"path": "/etc/passwd", "sandbox": confined}, -32602, "cannot be enforced")
	p.refuse("process/start", startObject("p", "true", object{"sandbox": confined}), -32602, "cannot be enforced")
	p.refuse("fs/readFile", object{"path": "/etc/passwd", "sandbox": object{}}, -32602, "missing field `permissions`")
	for _, method := range slices.Sorted(maps.Keys(methods)) {
		if withoutSandbox[method] {
			continue
		}
		dir := "file://" + t.TempDir()
		params := object{ // the members of all methods that have a sandbox
			"path": dir + "/x", "sourcePath": dir + "/x", "destinationPath": dir + "/y", "paths": []string{dir}, "target": "x",
			"dataBase64": "", "recursive": true, "handleId": "h", "mode": "read", "watchId": 1,
			"options":   object{"maxDepth": 1, "maxDirectories": 1, "maxEntries": 1, "followDirectorySymlinks": false},
			"processId": "p", "argv": []string{"true"}, "cwd": dir, "env": object{}, "tty": false, "permissions": 0o600,
			"sandbox": confined, "roots": []object{{"id": "r", "path": dir, "sandbox": confined}},
		}
		p.refuse(method, params, -32602, "cannot be enforced")
	}
	free := object{"permissions": object{"type": "disabled"}}
	p.call("fs/getMetadata", object{"path": "/", "sandbox": free}, nil)
	p.start("q", "true", object{"sandbox": free})
	p.closed("q")
}
