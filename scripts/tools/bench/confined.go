package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// calm is the pause before each confined request. Codex CLI is late with its answer to a request
// that closely follows another one.
const calm = 50 * time.Millisecond

// deniedName is a directory of the workspace.
const deniedName = "denied"

// These are the policies of the rows: the one that clients request most, and one under which every
// release of Codex CLI reads files in a sandbox.
var (
	readOnly       = special("root", "", "read")
	workspaceWrite = strings.Join([]string{
		special("root", "", "read"), special("project_roots", "", "write"),
		special("slash_tmp", "", "write"), special("tmpdir", "", "write"),
		special("project_roots", ".git", "read"), special("project_roots", ".agents", "read"), special("project_roots", ".codex", "read"),
	}, ",")
	oneDenied = special("root", "", "read") + "," + special("project_roots", deniedName, "deny")
)

// special returns an entry of a permission profile.
func special(kind, subpath, access string) string {
	if subpath != "" {
		subpath = `,"subpath":"` + subpath + `"`
	}
	return `{"path":{"type":"special","value":{"kind":"` + kind + `"` + subpath + `}},"access":"` + access + `"}`
}

// sandbox returns the member of a request that confines it.
func sandbox(entries, workspace string) string {
	return `"sandbox":{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[` + entries +
		`]},"network":"restricted"},"cwd":"file://` + workspace + `","workspaceRoots":["file://` + workspace +
		`"],"windowsSandboxLevel":"disabled","windowsSandboxPrivateDesktop":false,"useLegacyLandlock":false}`
}

// confined returns the rows of confined requests. raw is a minimal call of bubblewrap with the same
// command. The workspace is not below /tmp, which a policy makes writable.
func (b *bench) confined() ([]metric, error) {
	workspace, err := os.MkdirTemp("/var/tmp", "bench-*")
	if err != nil {
		return nil, err
	}
	b.bases = append(b.bases, workspace)
	for _, dir := range []string{".git", deniedName} {
		if err := os.Mkdir(filepath.Join(workspace, dir), 0o755); err != nil {
			return nil, err
		}
	}
	file := filepath.Join(workspace, "small")
	if err := os.WriteFile(file, make([]byte, 1<<10), 0o644); err != nil {
		return nil, err
	}
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, fmt.Errorf("no bwrap to compare with: install bubblewrap: %w", err)
	}
	bare := func(command ...string) func(context.Context) (float64, error) {
		return func(ctx context.Context) (float64, error) {
			time.Sleep(calm)
			cmd := exec.CommandContext(ctx, bwrap, append([]string{"--ro-bind", "/", "/", "--dev", "/dev", "--unshare-all",
				"--proc", "/proc", "--die-with-parent"}, command...)...)
			return timed(func() error {
				if out, err := cmd.CombinedOutput(); err != nil {
					return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
				}
				return nil
			})
		}
	}
	start := func(entries string) func(*server, *client) (float64, error) {
		return func(s *server, c *client) (float64, error) {
			path := "/usr/bin:/bin"
			if s.bin != "" {
				path = s.bin + ":" + path
			}
			time.Sleep(calm)
			return timed(func() error { return runTrueIn(c, workspace, path, plain+","+sandbox(entries, workspace)) })
		}
	}
	aims := aim{ratio: 1, belowRaw: true}
	return []metric{
		{row{"confined start to closed, read-only", "ms", aims}, 10, start(readOnly), bare("/bin/true")},
		{row{"confined start to closed, workspace-write", "ms", aims}, 10, start(workspaceWrite), bare("/bin/true")},
		{row{"confined readFile 1 KiB, one directory denied", "ms", aims}, 10, func(_ *server, c *client) (float64, error) {
			time.Sleep(calm)
			return timed(func() error {
				m, err := c.call("fs/readFile", `{"path":"file://`+file+`",`+sandbox(oneDenied, workspace)+`}`)
				if err == nil && len(m) < 1<<10/3*4 {
					err = fmt.Errorf("a short answer: %d bytes", len(m))
				}
				return err
			})
		}, bare("/bin/cat", file)},
	}, nil
}
