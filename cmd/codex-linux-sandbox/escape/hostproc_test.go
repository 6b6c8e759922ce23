package escape

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// coverable is the file that covered covers.
const coverable = "/proc/timer_list"

// isCovered reports whether this machine is a container whose engine has covered the file.
func isCovered() bool {
	var st unix.Stat_t
	return unix.Stat(coverable, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR
}

// needCover skips a test if no part of /proc is covered, and this process cannot cover one.
func needCover(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 && !isCovered() {
		t.Skip("only root can cover parts of /proc")
	}
}

// covered runs an attack where a part of /proc is covered, as in a container: the kernel then permits no new /proc in a
// sandbox. Only one harmless file is covered, so that nothing but the sandbox protects the others. A container has covered more.
func (p *place) covered(backend, profile string, args ...string) outcome {
	p.t.Helper()
	if isCovered() {
		return p.run(backend, profile, args...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	inner := p.command(ctx, backend, profile, args...)
	user := strconv.Itoa(p.uid)
	script := `mount --bind /dev/null ` + coverable + ` && exec setpriv --reuid "$0" --regid "$0" --clear-groups "$@"`
	cmd := exec.CommandContext(ctx, "unshare", append([]string{"--mount", "sh", "-c", script, user}, inner.Args...)...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = inner.Dir, inner.Env, inner.WaitDelay
	cmd.SysProcAttr = as(os.Geteuid())
	return p.finish(cmd)
}

// TestHostProc: where the kernel permits no new /proc, a command has the host's. It works, and the command can neither read
// the memory, environment and files of processes outside, nor signal them, nor change a setting of the kernel.
func TestHostProc(t *testing.T) {
	needCover(t)
	attacks := map[string]func(p *place) []string{
		"look into a process": func(p *place) []string { return []string{"look into", pid(p), p.secret} },
		"roots of processes":  func(p *place) []string { return []string{"any root", p.secret} },
		"signal":              func(p *place) []string { return []string{"signal", pid(p)} },
		"signal by directory": func(p *place) []string { return []string{"signal by directory", pid(p)} },
		"settings":            words("settings"),
		"memory":              words("memory"),
		"writables":           words("writables"),
	}
	each(t, []string{"namespaces"}, func(t *testing.T, p *place, backend string) {
		p.startVictim()
		profiles := map[string]string{"read only": p.readOnly(), "workspace": p.workspace(), "writable root": entries("root=write", p.secret+"=deny")}
		for kind, profile := range profiles {
			t.Run(kind, func(t *testing.T) {
				p := *p
				p.t = t
				if o := p.covered(backend, profile, "see", pid(&p)); o.code != 0 {
					t.Errorf("the host's /proc: %v", o)
				}
				for name, args := range attacks {
					t.Run(name, func(t *testing.T) {
						if name == "writables" && kind != "read only" {
							return // this attack finds what the profile permits
						}
						contained(t, p.covered(backend, profile, args(&p)...))
						p.unharmed()
					})
				}
			})
		}
		for kind, profile := range map[string]string{
			"restricted reads":    entries("minimal=read", p.attacker+"=read", p.ws+"=write"),
			"something is denied": entries("root=read", "/proc/keys=deny"),
		} {
			if o := p.covered(backend, profile, "look at", "/proc/meminfo", "/proc/"+pid(p)+"/cmdline"); o.code != 0 || len(o.breaches()) > 0 {
				t.Errorf("%s: got the host's /proc, want an empty one: %v", kind, o)
			}
		}
		for _, name := range []string{"look into a process", "roots of processes", "signal", "signal by directory"} {
			works(t, p.run("", "", attacks[name](p)...))
		}
	})
}

// TestCoverOfProc: what covers a part of the host's /proc covers it in a sandbox, too.
func TestCoverOfProc(t *testing.T) {
	needCover(t)
	each(t, []string{"namespaces"}, func(t *testing.T, p *place, backend string) {
		o := p.covered(backend, p.readOnly(), "covered", coverable)
		if o.code != 0 || len(o.breaches()) > 0 {
			t.Errorf("got %v, want a device", o)
		}
	})
}

// TestDevicesOfReadOnlyPolicies: a command that may write nothing can write to /dev/null and its like.
func TestDevicesOfReadOnlyPolicies(t *testing.T) {
	each(t, everyBackend, func(t *testing.T, p *place, backend string) {
		if o := p.run(backend, p.readOnly(), "use devices"); o.code != 0 {
			t.Errorf("got %v, want exit code 0", o)
		}
	})
}
