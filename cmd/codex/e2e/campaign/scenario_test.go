package campaign

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
)

// node is a file, directory or link in the tree of a scenario. Its path is relative to the
// scenario's directory. Policies are about "t/..."; "v/..." are repositories outside of the
// policies.
type node struct {
	Path string
	Kind string // dir, file, link, hard, fifo or socket
	// Text is the target of a link (absolute paths begin with @, which stands
	// for the scenario's directory), the other name of a hard link, or the
	// content of a file in place of a canary.
	Text string `json:",omitempty"`
	Mode uint32
}

// entry is an entry of a policy. The target is a path like that of a node, a pattern
// ("glob:t/**/f1"), or special: root, minimal, tmp, workspace or workspace/SUBPATH.
type entry struct{ Target, Access string }

// scenario contains all decisions that are made before any process runs. The same seed and backend
// make the same scenario. Only the schedule of processes differs.
type scenario struct {
	Seed      uint64
	Backend   string // namespaces, bwrap or landlock; none runs the probe unconfined
	UID       int
	Nodes     []node
	Entries   []entry
	Network   bool
	Workspace string
	AtRoot    bool // the command starts in / instead of the workspace
	Stricter  bool
	Runs      int
	// Inside is the backend of a second sandbox under the same policy that changes names while the
	// probe runs. "" means that there is no second sandbox.
	Inside string
	// Wide are the entries of a sandbox that may write all of t. It runs while the probe waits
	// inside its own sandbox.
	Wide []entry
	// Swap is a directory in which an unconfined process exchanges a directory and a link again and
	// again. Mounts are directories on which it mounts and unmounts file systems.
	Swap   string
	Still  bool // the process exchanges no names
	Mounts []string
	Shared bool // mounts propagate, as on hosts with systemd
	// Kill kills the launcher in the middle of a run.
	Kill bool
	// Descriptors are inherited descriptors, opened for reading or only with O_PATH. Stdin is the
	// probe's input.
	Descriptors []descriptor
	Stdin       string
	Requests    int // file requests to a server, in addition to the commands
}

// circumstances are the parts of a scenario that can be left out, to determine which of them a
// breach needs.
var circumstances = []string{"inside", "wide", "swap", "mounts", "kill", "descriptors", "stdin", "requests", "again"}

// without returns a copy of the scenario without the listed circumstances.
func (s *scenario) without(list []string) *scenario {
	for _, what := range list {
		switch what {
		case "inside":
			s.Inside = ""
		case "wide":
			s.Wide = nil
		case "swap":
			s.Still = true
		case "mounts":
			s.Mounts = nil
		case "kill":
			s.Kill = false
		case "descriptors":
			s.Descriptors = nil
		case "stdin":
			s.Stdin = ""
		case "requests":
			s.Requests = 0
		case "again":
			s.Runs = min(s.Runs, 1)
		}
	}
	return s
}

type descriptor struct {
	Path   string
	Number int
	OPath  bool
}

var metadata = []string{".git", ".agents", ".codex"}

type generator struct {
	*rand.Rand
	s     *scenario
	taken map[string]bool
	dirs  []string
	files []string
	links []string
	n     int
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// chance returns true with a probability of percent in a hundred.
func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func (g *generator) add(n node) bool {
	if g.taken[n.Path] {
		return false
	}
	g.taken[n.Path] = true
	if n.Mode == 0 {
		n.Mode = 0o644
		if n.Kind == "dir" {
			n.Mode = 0o755
		}
	}
	g.s.Nodes = append(g.s.Nodes, n)
	switch n.Kind {
	case "dir":
		g.dirs = append(g.dirs, n.Path)
	case "file", "hard":
		g.files = append(g.files, n.Path)
	case "link":
		g.links = append(g.links, n.Path)
	}
	return true
}

func (g *generator) name(kind string) string {
	g.n++
	return fmt.Sprintf("%s%d", kind, g.n)
}

// generate makes the scenario of a seed.
func generate(seed uint64, backend string, uid int) *scenario {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 7)), s: &scenario{Seed: seed, Backend: backend, UID: uid}, taken: make(map[string]bool)}
	g.tree()
	g.policy()
	g.circumstances()
	return g.s
}

func (g *generator) repository(dir string) {
	if !g.add(node{Path: dir + "/.git", Kind: "dir"}) {
		return
	}
	for _, f := range []string{"HEAD", "config"} {
		g.add(node{Path: dir + "/.git/" + f, Kind: "file"})
	}
	g.add(node{Path: dir + "/.git/hooks", Kind: "dir"})
	g.add(node{Path: dir + "/.git/hooks/" + g.name("f"), Kind: "file"})
}

func (g *generator) tree() {
	// No policy grants these paths, unless a link leads there.
	for _, d := range []string{"v", "v/r", "v/empty"} {
		g.add(node{Path: d, Kind: "dir"})
	}
	g.repository("v/r")
	g.add(node{Path: "v/r/.codex", Kind: "dir"})
	g.add(node{Path: "v/r/.agents", Kind: "dir"})
	g.add(node{Path: "v/r/.codex/" + g.name("f"), Kind: "file"})
	g.add(node{Path: "v/r/" + g.name("f"), Kind: "file"})
	outside := len(g.dirs)
	g.add(node{Path: "t", Kind: "dir"})
	inside := func() []string { return g.dirs[outside:] }
	for range 5 + g.IntN(10) {
		parent := pick(g.Rand, inside())
		if strings.Count(parent, "/") > 4 {
			continue
		}
		mode := uint32(0o755)
		if g.chance(5) {
			mode = 0o555
		}
		g.add(node{Path: parent + "/" + pick(g.Rand, []string{"a", "b", "c", "d"}), Kind: "dir", Mode: mode})
	}
	for range 6 + g.IntN(10) {
		g.add(node{Path: pick(g.Rand, inside()) + "/" + g.name("f"), Kind: "file", Mode: pick(g.Rand, []uint32{0o644, 0o644, 0o600, 0o755})})
	}
	plain := len(g.dirs)
	for range g.IntN(4) {
		g.metadata(pick(g.Rand, g.dirs[outside:plain]))
	}
	for range g.IntN(4) {
		target := pick(g.Rand, append(append([]string{"t/gone"}, g.dirs...), g.files...))
		at := pick(g.Rand, inside()) + "/" + g.name("l")
		text := "@/" + target
		if g.chance(50) {
			text = strings.Repeat("../", strings.Count(path.Dir(at), "/")+1) + target
		}
		g.add(node{Path: at, Kind: "link", Text: text})
	}
	for range g.IntN(3) {
		g.add(node{Path: pick(g.Rand, inside()) + "/" + g.name("h"), Kind: "hard", Text: pick(g.Rand, g.files)})
	}
	for range g.IntN(3) {
		g.add(node{Path: pick(g.Rand, inside()) + "/" + g.name("p"), Kind: "fifo"})
	}
	for range g.IntN(3) {
		g.add(node{Path: pick(g.Rand, inside()) + "/" + g.name("s"), Kind: "socket"})
	}
}

// metadata adds some of the files that tools trust to a directory, each in one of many forms.
func (g *generator) metadata(dir string) {
	switch g.IntN(7) {
	case 0, 1:
		g.repository(dir)
	case 2:
		g.add(node{Path: dir + "/.git", Kind: "dir"})
	case 3:
		target := pick(g.Rand, g.dirs)
		g.add(node{Path: dir + "/.git", Kind: "file", Text: "gitdir: @/" + target + "\n"})
		if g.chance(50) {
			g.add(node{Path: target + "/commondir", Kind: "file", Text: "../c\n"})
		}
	case 4:
		g.add(node{Path: dir + "/.git", Kind: "file", Text: "gitdir: " + pick(g.Rand, []string{"./gone", "../gone/deep", "a", "../b/c"}) + "\n"})
	case 5:
		g.add(node{Path: dir + "/.git", Kind: "link", Text: "@/" + pick(g.Rand, g.dirs)})
	}
	if g.chance(40) && g.add(node{Path: dir + "/.codex", Kind: "dir"}) {
		g.add(node{Path: dir + "/.codex/" + g.name("f"), Kind: "file"})
	}
	if g.chance(30) {
		g.add(node{Path: dir + "/.agents", Kind: pick(g.Rand, []string{"dir", "file"})})
	}
}

// target chooses the path of an entry, below a directory.
func (g *generator) target(below string) string {
	in := func(list []string) (found []string) {
		for _, p := range list {
			if p == below || strings.HasPrefix(p, below+"/") {
				found = append(found, p)
			}
		}
		return found
	}
	dirs, files, links := in(g.dirs), in(g.files), in(g.links)
	if len(dirs) == 0 {
		dirs = []string{below}
	}
	switch n := g.IntN(100); {
	case n < 12 && len(files) > 0:
		return pick(g.Rand, files)
	case n < 20 && len(links) > 0:
		return pick(g.Rand, links)
	case n < 24 && len(links) > 0:
		return pick(g.Rand, links) + "/" + pick(g.Rand, []string{"a", "b", ".git"})
	case n < 32:
		return pick(g.Rand, dirs) + "/" + pick(g.Rand, []string{"gone", "gone/deep", "gone/deep/er"})
	case n < 42:
		return pick(g.Rand, dirs) + "/" + pick(g.Rand, metadata)
	}
	return pick(g.Rand, dirs)
}

func (g *generator) policy() {
	s := g.s
	s.Workspace = pick(g.Rand, g.dirs)
	for !strings.HasPrefix(s.Workspace, "t") {
		s.Workspace = pick(g.Rand, g.dirs)
	}
	s.Network = g.chance(20)
	add := func(target, access string) { s.Entries = append(s.Entries, entry{target, access}) }
	whole := g.IntN(100)
	switch {
	case whole < 60:
		add("root", "read")
	case whole < 68 && s.Backend != "landlock" && os.Geteuid() == 0: // workers of root have a root file system of their own
		add("root", "write")
		add("v", "read")
	default:
		add("minimal", "read")
	}
	if s.Backend == "landlock" && g.chance(80) {
		g.grants()
		return
	}
	var writable []string
	for i := range 1 + g.IntN(6) {
		below, access := "t", pick(g.Rand, []string{"write", "write", "read", "deny", "deny"})
		if i == 0 && g.chance(80) {
			access = "write"
		}
		if len(writable) > 0 && g.chance(60) {
			below = pick(g.Rand, writable)
		}
		target := g.target(below)
		if g.chance(5) {
			target, access = g.target("v"), pick(g.Rand, []string{"read", "deny"})
		}
		if access == "write" {
			writable = append(writable, target)
		}
		add(target, access)
	}
	if g.chance(25) {
		add("workspace", "write")
		if g.chance(50) {
			add("workspace/"+pick(g.Rand, metadata), pick(g.Rand, []string{"read", "write"}))
		}
	}
	if g.chance(10) {
		add("tmp", "write")
	}
	if g.chance(15) {
		add("glob:"+pick(g.Rand, g.dirs)+"/"+pick(g.Rand, []string{"**/f?", "*", "f*", "**/config", "**/h*"}), "deny")
	}
}

// grants makes a policy that only grants access, because Landlock can enforce no other.
func (g *generator) grants() {
	for range 1 + g.IntN(3) {
		at := pick(g.Rand, g.dirs)
		if !strings.HasPrefix(at, "t") {
			continue
		}
		access := pick(g.Rand, []string{"write", "write", "read"})
		g.s.Entries = append(g.s.Entries, entry{at, access})
		for _, name := range metadata {
			if access != "write" {
				break
			}
			g.s.Entries = append(g.s.Entries, entry{at + "/" + name, "write"})
		}
	}
	g.s.Stricter = g.chance(40)
}

func (g *generator) circumstances() {
	s := g.s
	s.AtRoot = g.chance(30)
	s.Runs = 1 + g.IntN(2)
	s.Kill = g.chance(20)
	s.Shared = g.chance(50)
	if g.chance(50) {
		s.Inside = s.Backend
		if g.chance(30) {
			s.Inside = pick(g.Rand, []string{"namespaces", "bwrap"})
		}
	}
	if s.Backend != "landlock" && g.chance(25) {
		s.Wide = []entry{{"root", "read"}, {"t", "write"}}
		for _, d := range g.dirs {
			if strings.HasPrefix(d, "t") && g.chance(20) {
				s.Wide = append(s.Wide, entry{d, "write"})
			}
		}
		s.Runs = 1
	}
	if g.chance(40) {
		s.Swap = pick(g.Rand, g.dirs)
		if strings.HasPrefix(s.Swap, "v") || strings.Contains(s.Swap, ".git") {
			s.Swap = "t"
		}
		s.Nodes = append(s.Nodes,
			node{Path: s.Swap + "/sw", Kind: "dir", Mode: 0o755},
			node{Path: s.Swap + "/sw/y", Kind: "dir", Mode: 0o755},
			node{Path: s.Swap + "/sw/y/" + g.name("f"), Kind: "file", Mode: 0o644},
			node{Path: s.Swap + "/sl", Kind: "link", Text: "@/" + pick(g.Rand, g.dirs)})
		if s.Backend != "landlock" && g.chance(60) {
			s.Entries = append(s.Entries, entry{s.Swap, "write"}, entry{s.Swap + "/sw/y", pick(g.Rand, []string{"read", "deny", "write"})})
		}
	}
	if g.chance(40) {
		for range 1 + g.IntN(3) {
			dir := pick(g.Rand, g.dirs)
			hides := func(e entry) bool { return g.hides(dir, e) }
			if !slices.Contains(s.Mounts, dir) && !slices.ContainsFunc(s.Entries, hides) && !slices.ContainsFunc(s.Wide, hides) {
				s.Mounts = append(s.Mounts, dir)
			}
		}
	}
	for range g.IntN(4) {
		d := descriptor{Number: 3 + len(s.Descriptors), OPath: g.chance(40), Path: pick(g.Rand, append(append([]string(nil), g.dirs...), g.files...))}
		if g.chance(15) {
			d.Number += 1100
		}
		s.Descriptors = append(s.Descriptors, d)
	}
	if g.chance(20) && s.Wide == nil {
		s.Stdin = pick(g.Rand, g.files)
	}
	if g.chance(25) {
		s.Requests = 12
	}
}

// hides reports whether a file system that is mounted on a directory hides the target of an entry
// in one of the ways for which docs/security.md makes the mounting process responsible:
//   - A writable root is missing while it is hidden. So the plan leaves it out, with
//     all protected names in it and above it (seed 41035).
//   - Files that a pattern would match are not found, and the targets of links are not visible.
//   - Landlock has no view of its own. If mounts are shared, a later unmount also takes effect in
//     the view of bwrap. In both cases, hidden files become visible.
//
// The campaign plays mounts that hide denied and read-only paths in other ways. The plan sees such
// a mount or not, and the view must agree with the plan.
func (g *generator) hides(dir string, e entry) bool {
	s := g.s
	if pattern, ok := strings.CutPrefix(e.Target, "glob:"); ok {
		return within(pattern, dir) || within(dir, pattern[:strings.IndexByte(pattern, '*')]) || strings.Contains(pattern, "**")
	}
	at := e.Target
	if sub, ok := strings.CutPrefix(at, "workspace"); ok {
		at = s.Workspace + sub
	}
	// A mount may hide the target of a link and not the link (seed 1200181).
	leads := func(n node) bool {
		return n.Kind == "link" && within(at, n.Path) && within(strings.TrimLeft(n.Text, "@./"), dir)
	}
	if slices.ContainsFunc(s.Nodes, leads) {
		return true
	}
	if !within(at, dir) {
		return false
	}
	uses := func(backend string) bool { return s.Backend == backend || s.Inside == backend }
	crosses := func(link string) bool { return within(at, link) }
	return e.Access == "write" || uses("landlock") || uses("bwrap") && s.Shared ||
		slices.ContainsFunc(g.links, crosses) || within(at, s.Swap+"/sl")
}
