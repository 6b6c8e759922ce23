package roles

import (
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execproto"
)

// startAttack is a process/start. Either the ceiling must refuse it, or its process must change
// nothing outside of the directory.
type startAttack struct {
	name   string
	params execproto.StartParams
	want   string // expected in the error; "": the process may run
}

// startAttacks returns attacks by a client whose token has --cwd and workspace-write.
func (w *world) startAttacks() []startAttack {
	script := "echo x > " + w.beside + "/new; echo x > " + w.ws + "/link/new; echo x > " + w.ws + "/../beside/new; " +
		"echo x >> " + w.beside + "/secret; chmod 777 " + w.beside + "/secret; rm -f " + w.beside + "/secret; " +
		"ln " + w.beside + "/secret " + w.ws + "/hard; echo x >> " + w.ws + "/hard; mv " + w.beside + "/secret " + w.ws + "/moved; echo ran"
	usual := managed(at(w.ws, "write"))
	attack := func(name, want string, change func(p *execproto.StartParams)) startAttack {
		p := w.params("attack", usual, script)
		change(&p)
		return startAttack{name, p, want}
	}
	cwd := func(name, at, want string) startAttack {
		return attack("cwd: "+name, want, func(p *execproto.StartParams) { p.Cwd = at })
	}
	sandbox := func(name, want string, o object) startAttack {
		return attack("sandbox: "+name, want, func(p *execproto.StartParams) { p.Sandbox = raw(w.t, o) })
	}
	const outside, network, everything = "outside of", "has the network", "permits everything"
	return []startAttack{
		attack("the usual sandbox", "", func(*execproto.StartParams) {}),
		attack("in a terminal", "", func(p *execproto.StartParams) { p.TTY = true }),
		cwd("outside", uri(w.beside), "must lie in"),
		cwd("above", uri(w.dir), "must lie in"),
		cwd("dots", uri(w.ws+"/../beside"), "must lie in"),
		cwd("dots behind a link", uri(w.ws+"/link/../beside"), "must lie in"),
		cwd("a link", uri(w.ws+"/link"), "must lie in"),
		cwd("a neighbour whose name begins alike", uri(w.ws+"x"), "must lie in"),
		cwd("relative", "sub", "not absolute"),
		cwd("the root", "file:///", "must lie in"),
		cwd("of /proc", "file:///proc/self/cwd", "must lie in"),
		attack("no sandbox", "has no sandbox", func(p *execproto.StartParams) { p.Sandbox = nil }),
		sandbox("a writable root outside", outside, managed(at(w.beside, "write"))),
		sandbox("an additional writable root", outside, managed(at(w.ws, "write"), at(w.beside, "write"))),
		sandbox("a file outside", outside, managed(at(w.ws, "write"), at(w.beside+"/secret", "write"))),
		sandbox("a link", outside, managed(at(w.ws+"/link", "write"))),
		sandbox("behind a link", outside, managed(at(w.ws+"/link/secret", "write"))),
		sandbox("dots", outside, managed(at(w.ws+"/../beside", "write"))),
		sandbox("above", outside, managed(at(w.dir, "write"))),
		sandbox("the root", everything, managed(special("root", "write"))),
		sandbox("a project outside", outside, with(managed(special("project_roots", "write")), "cwd", uri(w.beside))),
		sandbox("workspace roots", outside, with(managed(special("project_roots", "write")), "cwd", uri(w.ws), "workspaceRoots", []string{uri(w.ws), uri(w.beside)})),
		sandbox("the context of a policy", outside, with(managed(special("project_roots", "write")), "cwd", uri(w.ws), "policyContext", object{"cwd": uri(w.beside)})),
		sandbox("the network", network, with(managed(at(w.ws, "write")), "permissions", object{
			"type": "managed", "file_system": object{"type": "restricted", "entries": []object{special("root", "read")}}, "network": "enabled"})),
		sandbox("unrestricted files", everything, object{"permissions": object{"type": "managed", "file_system": object{"type": "unrestricted"}, "network": "restricted"}}),
		sandbox("disabled", everything, object{"permissions": object{"type": "disabled"}}),
		sandbox("external", everything, object{"permissions": object{"type": "external", "network": "restricted"}}),
		sandbox("legacy Landlock", "useLegacyLandlock", with(usual, "useLegacyLandlock", true)),
		sandbox("$TMPDIR of the server", "", managed(at(w.ws, "write"), special("tmpdir", "write"))),
		attack("$TMPDIR of the client", "", func(p *execproto.StartParams) {
			p.Sandbox, p.Env["TMPDIR"] = raw(w.t, managed(at(w.ws, "write"), special("tmpdir", "write"))), w.beside
		}),
		attack("variables of the launcher", "", func(p *execproto.StartParams) {
			for _, name := range []string{"HOME", "CODEX_HOME", "PWD", "OLDPWD", "XDG_RUNTIME_DIR"} {
				p.Env[name] = w.beside
			}
			p.Env["LD_PRELOAD"], p.Env["GODEBUG"] = w.beside+"/secret", "x=y"
			p.Sandbox = raw(w.t, managed(at(w.ws, "write")))
		}),
		attack("a managed network", network, func(p *execproto.StartParams) { p.EnforceManagedNetwork = true }),
		attack("start-up files", "", func(p *execproto.StartParams) {
			p.Argv = []string{"/bin/bash", "-lc", script}
			p.ShellSnapshot = &execproto.ShellSnapshot{ScopeID: "s", Shell: execproto.SnapshotShell{Name: "bash", Path: "/bin/bash"}}
		}),
	}
}

// TestStartsUnderACeiling: no process, detached or not, gets more permissions than its token,
// whatever its client requests.
func TestStartsUnderACeiling(t *testing.T) {
	someWorld(t, func(w *world) {
		token := w.token("--role", "run", "--cwd", w.ws)
		w.serve()
		c := w.client(token)
		for _, a := range w.startAttacks() {
			a.params.ProcessID = "a" + strings.Map(letters, a.name)
			out, _, err := run(w.t.Context(), c, a.params)
			if got := errorText(err); a.want == "" && (err != nil || !strings.Contains(out, "ran")) || !strings.Contains(got, a.want) {
				w.t.Errorf("%s: %q, %v, want %q", a.name, out, err, a.want)
			}
			w.untouched(a.name)
			d, err := c.StartDetached(w.t.Context(), a.params)
			if got := errorText(err); (a.want == "") != (err == nil) || !strings.Contains(got, a.want) {
				w.t.Errorf("%s, detached: %v, want %q", a.name, err, a.want)
			}
			if err == nil {
				_, err = d.Wait(w.t.Context())
				harness.Must(w.t, err)
				harness.Must(w.t, d.Forget(w.t.Context()))
			}
			w.untouched(a.name + ", detached")
		}
	})
}

// letters replaces each character except ASCII letters by a hyphen, because a handle may not contain all characters.
func letters(r rune) rune {
	if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
		return r
	}
	return '-'
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
