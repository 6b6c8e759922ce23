package sandbox

import (
	"os"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// TestWorkspaceBelowLinks: a client names a workspace by a path through links, for example because /home leads to another
// disk. That works in the same way as the real path. Scenario: /home/user/project, two levels below the link, was refused.
func TestWorkspaceBelowLinks(t *testing.T) {
	t.Parallel()
	onBoth(t, func(c *confined) {
		real := c.dir + "/disk/user/project/sub"
		for _, err := range []error{
			os.MkdirAll(real+"/closed", 0o755), os.Symlink("disk", c.dir+"/home"), os.Symlink(c.dir+"/home/user", c.dir+"/me"),
			os.WriteFile(real+"/secret", []byte("secret"), 0o644), os.WriteFile(real+"/closed/file", []byte("secret"), 0o644),
		} {
			harness.Must(c.t, err)
		}
		for _, tt := range []struct{ ws, sub string }{
			{"/home", "/user/project/sub"},
			{"/home/user", "/project/sub"},
			{"/home/user/project", "/sub"},
			{"/home/user/project/sub", ""},
			{"/me", "/project/sub"},
			{"/me/project", "/sub"},
			{"/me/project/sub", ""},
			{"/disk/user", "/project/sub"},
		} {
			ws, sub := c.dir+tt.ws, c.dir+tt.ws+tt.sub
			profile := with(managed(special("root", "read"), special("project_roots", "write"), at(sub+"/secret", "deny"), at(sub+"/closed", "deny")), "cwd", uri(ws))
			c.start(tt.ws, profile, "exec 2>&1; echo made >"+sub+"/made && cat "+real+"/made; cat "+sub+"/secret; cat "+real+"/closed/file; echo x >"+c.dir+"/outside", "cwd", uri(ws))
			if e := c.end(tt.ws); e.code == 0 || !strings.HasPrefix(e.out, "made\n") || strings.Count(e.out, "Permission denied") != 2 || strings.Count(e.out, "Read-only") != 1 {
				c.t.Errorf(`%s: got %+v; want e.code other than 0, e.out beginning with %q, strings.Count(e.out, "Permission denied") 2, strings.Count(e.out, "Read-only") 1`, tt.ws, e, "made\n")
			}
			file := func(name string) object {
				return object{"path": uri(sub + name), "dataBase64": encode("x"), "sandbox": profile}
			}
			c.call("fs/writeFile", file("/new"))
			c.call("fs/readFile", file("/new"))
			c.refuse("fs/readFile", file("/secret"), -32600, "Permission denied")
			c.refuse("fs/readFile", file("/closed/file"), -32600, "Permission denied")
			only := with(managed(at(ws, "read"), special("minimal", "read")), "cwd", uri(ws))
			c.call("fs/readFile", object{"path": uri(sub + "/new"), "sandbox": only})
			harness.Must(c.t, os.Remove(real+"/made"))
			harness.Must(c.t, os.Remove(real+"/new"))
		}
		c.untouched()
		c.quiet()
	})
}
