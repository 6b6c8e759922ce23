package escape

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// attack is one attempt to escape.
type attack struct {
	name string
	// args are the arguments of the attacker; nil means the name of the attack.
	args func(p *place) []string
	// profile returns the profile of the sandbox; nil means the method opened.
	profile func(p *place) string
	// prepare creates the files that the attack needs.
	prepare func(p *place)
	// check checks the effects of the attack afterwards.
	check func(t *testing.T, p *place, inside bool)
	// control is the user as whom the attack must succeed outside of a sandbox.
	control control
	// tolerated means that the output does not show whether the attack succeeded: only check does.
	tolerated bool
	optional  bool // the kernel may lack the feature
	victim    bool // the attack needs a process outside of the sandbox
	only      int  // if not 0, the attack is run as this user only
	backends  []string
}

type control int

const (
	byAnybody control = iota
	byRoot            // outside, too, an ordinary user lacks the rights
	byNobody          // this machine lacks the feature, or the attack would do harm outside
)

// mounted are the backends that use mounts.
var mounted = []string{"namespaces", "bwrap"}

func words(w ...string) func(*place) []string { return func(*place) []string { return w } }

var attacks = []attack{
	{name: "ptrace", backends: []string{"bwrap", "broker", "landlock"}}, {name: "process_vm", backends: []string{"bwrap", "broker", "landlock"}},
	{name: "pidfd_getfd"}, {name: "trace a process outside", victim: true, args: func(p *place) []string { return []string{"trace", pid(p)} }},
	{name: "trace the init", control: byNobody, args: words("trace", "1")}, {name: "trace the parent", control: byNobody, args: words("trace", "parent")},
	{name: "rtnetlink", control: byRoot}, {name: "io_uring"}, {name: "userfaultfd"},
	// Debian's kernels refuse perf_event_open to ordinary users: their kernel.perf_event_paranoid is 3.
	{name: "perf", control: byRoot},
	{name: "bpf", control: byRoot}, {name: "keys"}, {name: "kexec", control: byRoot, optional: true},
	{name: "modules", control: byRoot, optional: true},
	{name: "handles", control: byRoot, args: func(p *place) []string { return []string{"handles", p.secret} }},
	{name: "mounts", control: byRoot, args: func(p *place) []string { return []string{"mounts", p.ws} }},
	{name: "open_tree", args: func(p *place) []string { return []string{"open_tree", p.ws} }},
	{name: "chroot", control: byRoot, args: words("chroot", "/")},
	{name: "unshare", control: byRoot}, {name: "unshare user"}, {name: "clone"}, {name: "clone3"},
	{name: "setns", args: words("setns", "self")},
	{name: "setns of others", victim: true, control: byRoot, args: func(p *place) []string { return []string{"setns", pid(p)} }},
	{name: "sockets"}, {name: "privileged sockets", control: byRoot},
	{name: "memory", control: byRoot}, {name: "settings", control: byRoot}, {name: "sysfs", control: byRoot},
	{name: "sysfs of a writable /", control: byRoot, args: words("sysfs"), backends: mounted,
		profile: func(p *place) string { return entries("root=write", p.secret+"=deny") }},
	{name: "mknod", control: byRoot, args: func(p *place) []string { return []string{"mknod", p.ws} }},
	{name: "host", control: byRoot}, {name: "adjust the clock", control: byRoot}, {name: "capabilities"},
	{name: "writables", control: byRoot, profile: (*place).readOnly},
	{name: "memfd", control: byNobody},
	{name: "signal", victim: true, args: func(p *place) []string { return []string{"signal", pid(p)} }},
	{name: "signal everybody", victim: true, control: byNobody, args: words("kill all")},
	{name: "priorities", victim: true, args: func(p *place) []string { return []string{"priorities", pid(p)} }},
	{name: "priorities of a user", victim: true, only: nobody, args: words("user's priorities", strconv.Itoa(nobody)),
		check: func(t *testing.T, p *place, inside bool) {
			if os.Geteuid() == nobody {
				return // the attempt outside has changed the priority of this process as well
			}
			mine, err := unix.Getpriority(unix.PRIO_PROCESS, 0) // the victim has inherited this priority: the tests may run under nice
			must(t, err)
			if nice, err := unix.Getpriority(unix.PRIO_PROCESS, p.victim); inside && (err != nil || nice != mine) {
				t.Errorf("the priority of a process outside was changed from %d to %d, %v", 20-mine, 20-nice, err)
			}
		}},
	{name: "lease", args: func(p *place) []string { return []string{"lease", p.file("leased", "")} }, profile: (*place).readOnly},
	{name: "limits", victim: true, args: func(p *place) []string { return []string{"limits", pid(p)} }},
	{name: "look into a process", victim: true, args: func(p *place) []string { return []string{"look into", pid(p), p.secret} }},
	{name: "any root", victim: true, args: func(p *place) []string { return []string{"any root", p.secret} }},
	// Under bwrap the init is bwrap itself. Other processes of the same user can always inspect it.
	// It has the filter and can do no more than the command.
	{name: "look into the init", control: byNobody, args: words("init"), backends: []string{"namespaces", "broker", "landlock"}},
	{name: "the init is filtered", control: byNobody, args: words("unfiltered init"), backends: mounted},
	{name: "a file outside", args: func(p *place) []string { return []string{"write", p.secret} }},
	{name: "attributes outside", args: func(p *place) []string { return []string{"change", p.secret} }},
	{name: "flags of a file outside", args: func(p *place) []string { return []string{"flags", p.secret} }},
	{name: "a link to the outside", args: func(p *place) []string { return []string{"write", p.ws + "/out/secret"} },
		prepare: func(p *place) { must(p.t, os.Symlink(p.dir, p.ws+"/out")) }},
	{name: "crawl out", args: func(p *place) []string { return []string{"crawl", p.ws, p.secret} }},
	// bwrap cannot make devices read-only, so root can change their attributes (docs/sandbox.md).
	{name: "devices' attributes", control: byRoot, args: words("devices"), profile: (*place).readOnly, backends: []string{"namespaces", "broker", "landlock"}},
	{name: "a denied file", args: func(p *place) []string { return []string{"spellings", p.ws + "/d/x.env"} }, backends: mounted,
		prepare: func(p *place) { p.file("ws/d/x.env", "key"); p.file("ws/d/other", "") },
		profile: func(p *place) string { return entries("root=read", p.ws+"=write", p.ws+"/d/x.env=deny") }},
	{name: "a denied pattern", args: func(p *place) []string { return []string{"spellings", p.ws + "/d/x.env"} }, backends: mounted,
		prepare: func(p *place) { p.file("ws/d/x.env", "key"); p.file("ws/d/other", "") },
		profile: func(p *place) string { return entries("root=read", p.ws+"=write", "glob:"+p.ws+"/**/*.env=deny") }},
	{name: "a denied directory", args: func(p *place) []string { return []string{"spellings", p.ws + "/d/x.env"} }, backends: mounted,
		prepare: func(p *place) { p.file("ws/d/x.env", "key"); p.file("ws/d/other", "") },
		profile: func(p *place) string { return entries("root=read", p.ws+"=write", p.ws+"/d=deny") }},
	{name: "hidden by restricted reads", args: func(p *place) []string { return []string{"spellings", p.secret} },
		prepare: func(p *place) { p.file("other", "") },
		profile: func(p *place) string {
			return entries("minimal=read", p.attacker+"=read", p.ws+"=write", p.ws+"/.git=write", p.ws+"/.agents=write", p.ws+"/.codex=write")
		}},
	{name: "a denied file whose parent moves", args: func(p *place) []string { return []string{"move parent", p.ws + "/d", "x.env"} }, backends: mounted,
		prepare: func(p *place) { p.file("ws/d/x.env", "key") },
		profile: func(p *place) string { return entries("root=read", p.ws+"=write", p.ws+"/d/x.env=deny") }},
	{name: "protected names that are missing", args: func(p *place) []string {
		return []string{"protected", p.ws + "/.git", p.ws + "/.codex", p.ws + "/.agents"}
	}, profile: (*place).workspace, backends: guarding, check: noMetadata},
	{name: "protected names that are there", args: func(p *place) []string {
		return []string{"protected", p.ws + "/.git", p.ws + "/.codex", p.ws + "/.agents"}
	}, profile: (*place).workspace, backends: guarding,
		prepare: func(p *place) {
			for _, name := range protectedNames {
				p.file("ws/"+name+"/keep", "keep")
			}
		}, check: func(t *testing.T, p *place, inside bool) {
			for _, name := range protectedNames {
				if b, _ := os.ReadFile(p.ws + "/" + name + "/keep"); inside && string(b) != "keep" {
					t.Errorf("%s was lost", name)
				}
			}
			noMetadata(t, p, inside)
		}},
	{name: "protected names in another case", args: func(p *place) []string { return []string{"case", p.ws} }, control: byNobody,
		profile: (*place).workspace, backends: mounted, check: noMetadata},
	{name: "a .git that cannot be undone", args: func(p *place) []string { return []string{"undo", p.ws} }, tolerated: true, backends: mounted,
		prepare: func(p *place) { p.file(".git/HEAD", "ref: x") }, profile: (*place).workspace,
		check: func(t *testing.T, p *place, inside bool) {
			if _, err := os.Lstat(p.ws + "/.git"); inside == (err == nil) {
				t.Errorf(".git: %v", err)
			}
		}},
	{name: "what masks are made of", args: func(p *place) []string { return []string{"covers", p.ws + "/.git"} }, control: byNobody,
		profile: (*place).workspace, backends: []string{"namespaces"}},
	{name: "what masks are made of, in an empty root", args: func(p *place) []string { return []string{"covers", p.ws + "/.git"} }, control: byNobody,
		profile:  func(p *place) string { return entries("minimal=read", p.attacker+"=read", p.ws+"=write") },
		backends: []string{"namespaces"}},
	{name: "core dump", args: words("dump core"), control: byNobody, check: func(t *testing.T, p *place, _ bool) {
		if found, _ := filepath.Glob(p.dir + "/core*"); len(found) > 0 {
			t.Errorf("got %v, want len(found) at most 0", found)
		}
	}},
	{name: "fill memory", args: words("fill", "/dev/shm", "/dev"), control: byNobody, backends: mounted, check: func(t *testing.T, _ *place, _ bool) {
		if _, err := os.Stat("/dev/shm/fill"); err == nil {
			t.Error("it is on the host")
		}
	}},
}

var protectedNames = []string{".git", ".codex", ".agents"}

// noMetadata checks that the attacker has created no file under a protected name.
func noMetadata(t *testing.T, p *place, inside bool) {
	for _, name := range protectedNames {
		if b, err := os.ReadFile(p.ws + "/" + name + "/config"); inside && err == nil {
			t.Errorf("%s/config is %q", name, b)
		}
		if info, err := os.Lstat(p.ws + "/" + name); inside && err == nil {
			if _, err := os.Lstat(p.ws + "/" + name + "/keep"); err != nil {
				t.Errorf("%s is there: %v", name, info.Mode())
			}
		}
	}
}

// inShare reports whether the attack of this number must be run. In emulated guests all attacks
// together take minutes. CODEX_ESCAPE_SHARE selects a share: 1/4 selects the attacks whose number
// divided by 4 has the remainder 1.
func inShare(t *testing.T, number int) bool {
	text := os.Getenv("CODEX_ESCAPE_SHARE")
	if text == "" {
		return true
	}
	first, second, _ := strings.Cut(text, "/")
	share, err := strconv.Atoi(first)
	must(t, err)
	of, err := strconv.Atoi(second)
	must(t, err)
	return number%of == share
}

// TestAttacks runs every attack outside and inside.
func TestAttacks(t *testing.T) { runAttacks(t, attacks) }

func runAttacks(t *testing.T, attacks []attack) {
	for i, a := range attacks {
		if !inShare(t, i) {
			continue
		}
		uids, backends := users(), a.backends
		if a.only != 0 {
			uids = slices.DeleteFunc(uids, func(uid int) bool { return uid != a.only })
		}
		if backends == nil {
			backends = everyBackend
		}
		for uid, some := range testutil.Pairs(a.name, uids, backends) {
			t.Run(a.name+" as "+strconv.Itoa(uid), func(t *testing.T) {
				t.Parallel()
				a.test(t, uid, some)
			})
		}
	}
}

// onlyMissing reports whether every try failed because the kernel lacks the call.
func onlyMissing(o outcome) bool {
	return strings.Count(o.text, "held: ") == strings.Count(o.text, ": ENOSYS")
}

func (a *attack) place(t *testing.T, uid int) (p *place, args []string, profile string) {
	p = newPlace(t, uid)
	if a.prepare != nil {
		a.prepare(p)
	}
	if a.victim {
		p.startVictim()
	}
	args = []string{a.name}
	if a.args != nil {
		args = a.args(p)
	}
	profile = p.opened()
	if a.profile != nil {
		profile = a.profile(p)
	}
	return p, args, profile
}

// test tries the attack as one user, with some backends.
func (a *attack) test(t *testing.T, uid int, backends []string) {
	// If no backend works, for example without user namespaces, no sandbox can be attacked. Attacks
	// that need user namespaces do not work outside either.
	some := slices.ContainsFunc(backends, func(backend string) bool { return usable(uid, backend) })
	refused := ""
	if some && (a.control == byAnybody || a.control == byRoot && uid == 0) {
		p, args, _ := a.place(t, uid)
		o := p.run("", "", args...)
		if !(a.optional && onlyMissing(o)) {
			refused = controlled(t, o)
		}
		if a.check != nil {
			a.check(t, p, false)
		}
	}
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			need(t, uid, backend)
			p, args, profile := a.place(t, uid)
			o := p.run(backend, profile, args...)
			if found := o.breaches(); len(found) > 0 && !a.tolerated {
				t.Errorf("escaped: %s", strings.Join(found, "; "))
			}
			if !strings.Contains(o.text, "held: ") && !slices.Contains([]string{"dump core", "kill all"}, args[0]) && len(o.breaches()) == 0 {
				t.Errorf("nothing was tried: %v", o)
			}
			if testing.Verbose() {
				t.Log(o)
			}
			p.unharmed()
			if a.check != nil {
				a.check(t, p, true)
			}
			if refused != "" {
				t.Skip(refused)
			}
		})
	}
}
