package permissions

import (
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"path"
	"slices"
	"strings"
)

// states is the set of the steps of a program that may come next, one bit for each. The last bit
// stands for the end of the program.
type states []uint64

func (prog program) start() states {
	s := make(states, len(prog)/64+1)
	prog.add(s, 0)
	return s
}

// add adds a step, and the steps that may come in its place.
func (prog program) add(s states, i int) {
	for ; ; i++ {
		s[i/64] |= 1 << (i % 64)
		if i == len(prog) {
			return
		}
		switch prog[i].op {
		case opStar, opCross:
		case opEnter:
			i++
			s[i/64] |= 1 << (i % 64)
		default:
			return
		}
	}
}

// feed returns the steps that may follow those in s after text is matched, or nil. It does not
// change s.
func (prog program) feed(s states, text string) states {
	if s == nil {
		return nil
	}
	n := len(s)
	buffers := make(states, 2*n)
	next, spare := buffers[:n], buffers[n:]
	for len(text) > 0 {
		c, size := nextChar(text)
		text = text[size:]
		clear(next)
		empty := true
		for w, word := range s {
			for ; word != 0; word &= word - 1 {
				i := w*64 + bits.TrailingZeros64(word)
				if i < len(prog) && prog.step(next, i, c) {
					empty = false
				}
			}
		}
		if empty {
			return nil
		}
		s, next, spare = next, spare, next
	}
	return s
}

// step adds to next the steps that may follow step i after the character c.
func (prog program) step(next states, i int, c rune) bool {
	t := &prog[i]
	switch t.op {
	case opEnter:
		return false // the steps that may come instead are in the set as well
	case opLiteral:
		if c != t.char {
			return false
		}
		i++
	case opAny, opClass:
		if c == '/' || t.op == opClass && !t.class.has(c) {
			return false
		}
		i++
	case opStar:
		if c == '/' {
			return false
		}
	case opLoop:
		if c == '/' {
			prog.add(next, i+1)
		}
	}
	prog.add(next, i)
	return true
}

func (prog program) accepts(s states) bool {
	return s != nil && s[len(prog)/64]&(1<<(len(prog)%64)) != 0
}

// matches reports whether the pattern matches an absolute clean path or one of its parent folders.
func (p pattern) matches(at string) bool {
	return slices.ContainsFunc(p.programs, func(prog program) bool {
		s := prog.start()
		for rest := at; ; {
			end := 1 + strings.IndexByte(rest[1:]+"/", '/')
			if s = prog.feed(s, rest[:end]); prog.accepts(s) {
				return true
			}
			if rest = rest[end:]; s == nil || rest == "" {
				return false
			}
		}
	})
}

// searchRoot returns the directory part of the text before the first wildcard of a
// pattern.
func (prog program) searchRoot() string {
	var fixed []rune
	for _, t := range prog {
		if t.op != opLiteral || t.char > 0x10FFFF {
			break
		}
		fixed = append(fixed, t.char)
	}
	return path.Dir(string(fixed))
}

// ExpandGlobs returns the paths that the denied patterns match now, sorted and without duplicates.
// They are files and directories of every type, including dotfiles, by effective path. For a
// symbolic link the result has the link and its target. The search does not follow links to
// directories, and does not go deeper than the policy permits. If a directory that could contain a
// match cannot be listed, the result contains the directory itself. /proc and /dev are left out,
// because a sandbox has its own, unless a pattern names one of them.
//
// More than 8192 matches are an error, and so are more than maxVisited directory entries. Files
// that are created later are not in the result.
func (p *Policy) ExpandGlobs() ([]string, error) {
	scan := globScan{view: p.view, depth: p.fs.GlobScanMaxDepth, found: make(map[string]bool)}
	for _, pattern := range p.patterns {
		if pattern.err != nil {
			return nil, fmt.Errorf("unreadable glob pattern is invalid for %s: %w", clip(pattern.text), pattern.err)
		}
		for _, prog := range pattern.programs {
			if err := scan.run(prog); err != nil {
				return nil, fmt.Errorf("unreadable glob expansion for %s %w", clip(pattern.text), err)
			}
		}
	}
	paths := make([]string, 0, len(scan.found))
	for at := range scan.found {
		paths = append(paths, at)
	}
	slices.Sort(paths)
	return paths, nil
}

// PatternRoots returns the directories from which the search for matches begins.
func (p *Policy) PatternRoots() (roots []string) {
	for _, pattern := range p.patterns {
		for _, prog := range pattern.programs {
			roots = append(roots, prog.searchRoot())
		}
	}
	return roots
}

// globScan is the work of one expansion.
type globScan struct {
	view    View
	depth   int // 0: any
	found   map[string]bool
	visited int
	// limit bounds visited for the current pattern.
	limit int
}

func (g *globScan) run(prog program) error {
	root := prog.searchRoot()
	g.limit = maxVisited
	if root == "/" {
		g.limit = min(maxVisited, g.visited+maxVisitedFromRoot)
		return g.walk(prog, prog.feed(prog.start(), root), root, 1)
	}
	at, t := stat(g.view, root)
	if t != Dir {
		return nil
	}
	s := prog.feed(prog.start(), root+"/")
	if s == nil {
		return nil
	}
	return g.walk(prog, s, at, 1)
}

// walk finds matches in a directory. s are the steps that may come next; depth
// is the depth of its entries.
func (g *globScan) walk(prog program, s states, dir string, depth int) error {
	type subdir struct {
		path   string
		states states
	}
	var dirs []subdir
	var failed error
	err := g.view.ReadDir(dir, func(name string, t FileType) error {
		if g.visited++; g.visited > g.limit {
			failed = fmt.Errorf("examined more than %d directory entries; set glob_scan_max_depth or narrow the pattern", min(g.limit, maxVisited))
			return failed
		}
		here := prog.feed(s, name)
		if here == nil {
			return nil
		}
		at := path.Join(dir, name)
		if at == "/proc" || at == "/dev" {
			return nil // a view has its own
		}
		if t == Other {
			if info, err := g.view.Lstat(at); err == nil {
				t = info.Type
			}
		}
		if prog.accepts(here) {
			if failed = g.add(at, t); failed != nil {
				return failed
			}
		}
		if t == Dir && (g.depth == 0 || depth < g.depth) {
			if inside := prog.feed(here, "/"); inside != nil {
				dirs = append(dirs, subdir{at, inside})
			}
		}
		return nil
	})
	switch {
	case failed != nil:
		return failed
	case errors.Is(err, fs.ErrNotExist):
		return nil // it is gone
	case err != nil:
		// A command could still open files in it by name.
		return g.add(dir, Dir)
	}
	for _, d := range dirs {
		if err := g.walk(prog, d.states, d.path, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// add adds a match and, if it is a link, the link's target. It does not add `/`, which has its own
// rules.
func (g *globScan) add(at string, t FileType) error {
	if t == Missing {
		return nil
	}
	g.found[at] = true
	if t == Symlink {
		if target, t := stat(g.view, at); t != Missing && target != "/" {
			g.found[target] = true
		}
	}
	if len(g.found) > maxMatches {
		return fmt.Errorf("matched more than %d paths", maxMatches)
	}
	return nil
}

// DeniesRead reports whether a tool must not read a path. It returns true if the path or its
// effective path is at or below a denied root, in either spelling of the root, or if a denied
// pattern matches the path or a parent folder. An invalid pattern denies everything.
func (p *Policy) DeniesRead(at string) bool {
	if p.fs.Unrestricted {
		return false
	}
	at = path.Clean(at)
	effective, err := EffectivePath(p.view, at)
	if err != nil || !path.IsAbs(at) {
		return true
	}
	for _, e := range p.entries {
		if e.access != Deny || e.path == "/" || p.Access(e.path).CanRead() {
			continue
		}
		if Within(at, e.path) || Within(at, e.effective) || Within(effective, e.path) || Within(effective, e.effective) {
			return true
		}
	}
	return slices.ContainsFunc(p.patterns, func(g pattern) bool {
		return g.err != nil || g.matches(at) || g.matches(effective)
	})
}
