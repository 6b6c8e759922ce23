package execserver

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/confine"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/fileop/fsops"
)

// readMethods are all methods that a client with the role read may use. A method belongs
// here only if it changes nothing and starts nothing.
var readMethods = []string{
	"initialize", "environment/info", "environment/status",
	"process/read", "process/list", "process/listDetached", "process/ack",
	"fs/open", "fs/openArchive", "fs/readBlock", "fs/close", "fs/watch", "fs/unwatch",
	"tunnel/watchPorts", "tunnel/unwatchPorts",
	"capabilityRoots/discoverV1", "capabilities/discoverV2",
}

// TestEveryMethodHasARole: a method without a role is refused to every client.
func TestEveryMethodHasARole(t *testing.T) {
	all := slices.Concat(slices.Collect(maps.Keys(methods)), slices.Collect(maps.Keys(notifications)))
	for _, method := range all {
		role, ok := methodRoles[method]
		if !ok || !slices.Contains(wsauth.Roles, role) {
			t.Errorf("%s has no role", method)
		}
		operation := fsops.Find(method)
		reads := slices.Contains(readMethods, method) || operation != nil && operation.ReadOnly
		if (role == wsauth.RoleRead) != reads {
			t.Errorf("%s has the role %s", method, role)
		}
	}
	for method := range methodRoles {
		if !slices.Contains(all, method) {
			t.Errorf("%s is no method", method)
		}
	}
	for _, method := range readMethods {
		if !slices.Contains(all, method) {
			t.Errorf("%s is no method", method)
		}
	}
}

// TestConfinedClientsHaveTheirDirectory: the directory of a client that is confined to one is that one.
func TestConfinedClientsHaveTheirDirectory(t *testing.T) {
	srv, _ := newTestServer(t, Options{})
	confined := &conn{srv: srv, grant: wsauth.Grant{Role: wsauth.RoleRun, Ceiling: wsauth.Ceiling{Dir: "/srv/project"}}}
	if got := confined.environment().Cwd; got != "file:///srv/project" {
		t.Errorf("got the directory %s", got)
	}
	if got, want := (&conn{srv: srv}).environment().Cwd, srv.environment().Cwd; got != want {
		t.Errorf("got the directory %s, want %s", got, want)
	}
}

func TestPermit(t *testing.T) {
	read := &conn{grant: wsauth.Grant{Role: wsauth.RoleRead}}
	run := &conn{grant: wsauth.Grant{Role: wsauth.RoleRun}}
	capped := &conn{grant: wsauth.Grant{Role: wsauth.RoleRun, Ceiling: wsauth.Ceiling{MaxSandbox: wsauth.SandboxReadOnly}}}
	for _, tt := range []struct {
		name string
		err  error
		want string // the expected error; "": the method is permitted
	}{
		{"read", read.permit(execproto.MethodProcessRead), ""},
		{"read starts", read.permit(execproto.MethodProcessStart), "the role run, and this one has the role read"},
		{"read writes input", read.permit(execproto.MethodProcessWrite), "the role run"},
		{"read ends", read.permit(execproto.MethodProcessTerminate), "the role run"},
		{"read signals", read.permit(execproto.MethodProcessSignal), "the role run"},
		{"read forgets", read.permit(execproto.MethodProcessForget), "the role run"},
		{"read tunnels", read.permit(execproto.MethodTunnelOpen), "the role run"},
		{"read fetches", read.permit(execproto.MethodHTTPRequest), "the role run"},
		{"read removes", read.permit("fs/remove"), "the role run"},
		{"read looks outside of its sandbox", read.permit(execproto.MethodFSWatchMissing), "the role run"},
		{"read reads the configuration", read.permit(execproto.MethodEnvironmentConfigRead), "the role run"},
		{"read opens to read", read.MayOpen("fs/open", execproto.OpenRead), ""},
		{"read opens to write", read.MayOpen("fs/open", execproto.OpenReplace), "the role run"},
		{"run starts", run.permit(execproto.MethodProcessStart), ""},
		{"run fetches", run.permit(execproto.MethodHTTPRequest), ""},
		{"run opens to write", run.MayOpen("fs/open", execproto.OpenReplace), ""},
		{"a ceiling tunnels", capped.permit(execproto.MethodTunnelListen), "--max-sandbox read-only"},
		{"a ceiling fetches", capped.permit(execproto.MethodHTTPRequest), "--max-sandbox read-only"},
		{"a ceiling opens to write", capped.MayOpen("fs/open", execproto.OpenReplace), "--max-sandbox read-only"},
		{"a ceiling starts without a sandbox", confine.CheckStart(&capped.grant.Ceiling, &execproto.StartParams{}, "/"), "no sandbox"},
		{"a ceiling and a proxy", confine.CheckStart(&capped.grant.Ceiling, &execproto.StartParams{Sandbox: []byte("{}"), EnforceManagedNetwork: true}, "/"), "has the network"},
		{"nobody", (&conn{}).permit(execproto.MethodInitialize), "the role read"},
	} {
		switch {
		case tt.want == "" && tt.err != nil, tt.want != "" && (tt.err == nil || !strings.Contains(tt.err.Error(), tt.want)):
			t.Errorf("%s: got error %v, want one with %q, or none if that is empty", tt.name, tt.err, tt.want)
		}
	}
}

func TestLowest(t *testing.T) {
	got := lowest(execproto.ProcessLimits{PIDs: 5, SwapBytes: 9, WallMS: 7}, execproto.ProcessLimits{PIDs: 3, MemoryBytes: 8, SwapBytes: 1, Require: true})
	if want := (execproto.ProcessLimits{PIDs: 3, MemoryBytes: 8, SwapBytes: 1, WallMS: 7, Require: true}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
