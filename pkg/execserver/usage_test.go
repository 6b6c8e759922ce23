package execserver

import (
	"os"
	"strings"
	"testing"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/statuspage"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/testutil"
)

// TestProcessUsage: usage is reported on request, while the process runs. The processes of
// other sessions are listed without separate arguments.
func TestProcessUsage(t *testing.T) {
	srv, url := newTestServer(t, Options{})
	p, _ := hello(t, url)
	other, _ := hello(t, url)
	p.start("p", "sleep 600 & exec sleep 600", nil)
	p.start("done", "exit 3", nil)
	p.closed("done")
	other.start("other", "exec sleep 600 # "+strings.Repeat("x", 2*statuspage.MaxCommand), nil)
	type process struct {
		ProcessID, Session, Client, Principal string
		Argv                                  []string
		Usage                                 *struct{ MemoryBytes, Processes uint64 }
	}
	list := func(params any) (found map[string]process) {
		t.Helper()
		var r struct{ Processes []process }
		p.call("process/list", params, &r)
		found = make(map[string]process)
		for _, e := range r.Processes {
			found[e.ProcessID] = e
		}
		return found
	}
	for _, params := range []any{nil, object{}, object{"scope": "session"}} {
		if got := list(params); len(got) != 2 || got["p"].Usage != nil || got["p"].Session != "" || len(got["p"].Argv) != 3 {
			t.Errorf(`%v: got %+v; want len(got) 2, got["p"].Usage nil, got["p"].Session "", len(got["p"].Argv) 3`, params, got)
		}
	}
	testutil.Eventually(t.Context(), t, "two processes", func() (string, bool) {
		u := list(object{"usage": true})["p"].Usage
		return "", u != nil && u.Processes == 2 && u.MemoryBytes > 0
	})
	if got := list(object{"usage": true}); got["done"].Usage != nil {
		t.Errorf("a process that has closed uses %+v", got["done"].Usage)
	}
	for _, scope := range []string{"principal", "server"} {
		got := list(object{"scope": scope})
		if e := got["other"]; len(got) != 3 || e.Session == "" || e.Client != "test" || e.Principal != userPrincipal(os.Geteuid()) || len(e.Argv) != 3 || len(strings.Join(e.Argv, " ")) > statuspage.MaxCommand+10 {
			t.Errorf("scope %s: %+v", scope, got)
		}
	}
	// Another principal sees none of them, and needs the role admin for all.
	c := &conn{srv: srv, principal: "somebody else", grant: wsauth.Grant{Role: wsauth.RoleRun}}
	if got := c.list(&execproto.ListParams{Scope: execproto.ListPrincipal}); len(got.Processes) != 0 {
		t.Errorf("another principal sees %+v", got)
	}
	if _, err := processList(c, &execproto.ListParams{Scope: execproto.ListServer}); err == nil || !strings.Contains(err.Error(), "the role admin") {
		t.Errorf("the scope server with the role run: %v", err)
	}
	// A process of another session of the principal can be ended.
	var r struct {
		Processes []struct {
			ProcessID string
			Exited    bool
		}
	}
	session := list(object{"scope": "principal"})["other"].Session
	for method, params := range map[string]object{
		"process/signal":    {"processId": "other", "session": session, "signal": "terminate"},
		"process/terminate": {"processId": "other", "session": session},
	} {
		p.call(method, params, nil)
		if _, err := (&conn{srv: srv, principal: "somebody else", grant: wsauth.Grant{Role: wsauth.RoleRun}}).processOf(session, "other"); err == nil {
			t.Error("another principal found the process")
		}
	}
	testutil.Eventually(t.Context(), t, "the end of the process of the other session", func() (string, bool) {
		p.call("process/list", object{"scope": "principal"}, &r)
		for _, e := range r.Processes {
			if e.ProcessID == "other" {
				return "", e.Exited
			}
		}
		return "it is not listed", false
	})
}
