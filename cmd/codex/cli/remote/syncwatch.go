package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/fileop/archive"
	"codex.internal/pkg/host/terminal"
	"codex.internal/pkg/host/watch"
)

// sourceChange is a change in the source of a sync.
type sourceChange struct {
	below     string // path relative to the source, with slashes; "": the source itself
	gone      bool   // the name no longer exists
	unwatched bool   // changes in this directory are not reported
	folder    bool
}

// sourceWatch reports changes in the source of a sync. next waits for changes; lost means that
// other changes were lost. After an error it reports no more changes.
type sourceWatch interface {
	next(ctx context.Context) (changes []sourceChange, lost bool, err error)
	close()
}

// serverChanges watches a directory of the server.
type serverChanges struct {
	watch *execclient.Watch
	root  string // its native path on the server
}

// watched begins to watch a directory of the server.
func (t *serverTree) watched() (sourceWatch, error) {
	w, err := t.fs.Watch(t.ctx, t.uri, execclient.WatchOptions{Recursive: true})
	if errors.Is(err, execclient.ErrNoWatch) {
		return nil, fmt.Errorf("--watch: %w; leave it out, and start the command again when something has changed", execclient.ErrNoWatch)
	}
	if err != nil {
		return nil, withoutPath(err)
	}
	return &serverChanges{w, nativePath(t.uri)}, nil
}

func (c *serverChanges) next(ctx context.Context) ([]sourceChange, bool, error) {
	n, err := c.watch.Next(ctx)
	list := make([]sourceChange, len(n.Events))
	for i, e := range n.Events {
		list[i] = sourceChange{belowRoot(c.root, e.Path), e.Kind == execproto.WatchRemoved, e.Kind == execproto.WatchUnwatched, e.IsDirectory}
	}
	return list, n.Overflow, withoutPath(err)
}

func (c *serverChanges) close() { _ = c.watch.Close() }

// localChanges watches a local directory. Changes wait in the kernel until next is called. If
// its queue overflows, next reports lost changes.
type localChanges struct {
	root    string
	tree    *watch.Tree
	ending  *watch.Ending
	cancel  context.CancelFunc
	batches chan watch.Batch // closed when routineBatches has ended
}

// watched begins to watch a local directory. It is supported on Linux only.
func (t *localTree) watched() (sourceWatch, error) {
	root, err := filepath.Abs(t.path)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(t.ctx)
	c := &localChanges{root: root, cancel: cancel, batches: make(chan watch.Batch)}
	if c.ending, err = watch.NewEnding(ctx); err != nil {
		cancel()
		return nil, err
	}
	if c.tree, err = watch.OpenTree(ctx, new(watch.Instance), root, true, c.ending.Descriptor()); err != nil {
		cancel()
		c.ending.Close()
		if errors.Is(err, watch.ErrUnsupported) {
			err = errors.New("--watch: changes of local files are noticed on Linux only; " +
				"a source on the server can be watched from here")
		}
		return nil, err
	}
	go c.routineBatches(ctx)
	return c, nil
}

// routineBatches receives changes until the watch or ctx ends. close waits for it.
func (c *localChanges) routineBatches(ctx context.Context) {
	defer close(c.batches)
	for {
		batch, ok := c.tree.Next()
		if !ok {
			return
		}
		select {
		case c.batches <- batch:
		case <-ctx.Done():
			return
		}
		if batch.Ended != "" {
			return
		}
	}
}

func (c *localChanges) next(ctx context.Context) ([]sourceChange, bool, error) {
	var batch watch.Batch
	open := true
	select {
	case <-ctx.Done():
		return nil, false, ctx.Err()
	case batch, open = <-c.batches:
	}
	switch {
	case !open:
		return nil, false, errors.New("the system reports no more changes")
	case batch.Ended != "":
		return nil, false, errors.New(batch.Ended)
	}
	list := make([]sourceChange, len(batch.Events))
	for i, e := range batch.Events {
		below := filepath.ToSlash(belowRoot(c.root, e.Path))
		list[i] = sourceChange{below, e.Kind == watch.Removed, e.Kind == watch.Unwatched, e.Directory}
	}
	return list, batch.Overflow, nil
}

func (c *localChanges) close() {
	c.cancel()
	for range c.batches {
	}
	c.tree.Close()
	c.ending.Close()
}

// belowRoot returns a path relative to the watched directory. For that directory itself it returns "".
func belowRoot(root, changed string) string {
	return strings.Trim(strings.TrimPrefix(changed, root), "/")
}

// pendingPaths are the changes for the next round of a sync.
type pendingPaths struct {
	whole bool            // compare both trees, because changes were lost or affect other paths
	gone  map[string]bool // the changed paths; true: the last change removed the path
}

// follow keeps the target equal to the source until the context ends or the source can no longer be
// watched.
func (y *syncing) follow(from, to tree) error {
	w, err := from.watched() // begin before the first list, so that changes during the list are reported
	if err != nil {
		return fmt.Errorf("watch %s: %w", from.shown("."), err)
	}
	defer w.close()
	first, tries := true, 0
	for p := (pendingPaths{whole: true}); ; {
		err := y.round(from, to, &p)
		var lost *execclient.DisconnectedError
		switch {
		case y.ctx.Err() != nil:
			return y.ctx.Err()
		case errors.As(err, &lost) && tries < resumeTries:
			// The next request waits until the connection is recovered, and fails if it cannot be.
			tries++
			p = pendingPaths{whole: true}
			continue
		case err != nil:
			return err
		}
		if tries = 0; first && !y.quiet {
			cmdutil.Messagef(y.errs, "codex: %s is up to date; watching %s for changes until Ctrl-C\n",
				terminal.Text(to.shown(".")), terminal.Text(from.shown(".")))
		}
		first, *y.began = false, true
		if p, err = y.gather(w, pendingPaths{whole: y.again}); err != nil {
			return err
		}
	}
}

// gather waits for a change unless some are pending already. Then it collects further changes for syncGather.
func (y *syncing) gather(w sourceWatch, p pendingPaths) (pendingPaths, error) {
	for p.empty() {
		changes, lost, err := w.next(y.ctx)
		if err != nil {
			return p, err
		}
		y.pend(&p, changes, lost)
	}
	ctx, cancel := context.WithTimeout(y.ctx, syncGather)
	defer cancel()
	for {
		changes, lost, err := w.next(ctx)
		switch {
		case y.ctx.Err() != nil:
			return p, y.ctx.Err()
		case errors.Is(err, context.DeadlineExceeded):
			return p, nil
		case err != nil:
			return p, err
		}
		y.pend(&p, changes, lost)
	}
}

func (p *pendingPaths) empty() bool { return !p.whole && len(p.gone) == 0 }

// pend adds changes to the next round, except those of paths that are left out.
func (y *syncing) pend(p *pendingPaths, changes []sourceChange, lost bool) {
	p.whole = p.whole || lost
	for _, e := range changes {
		if y.skips(e.below, e.folder) {
			continue
		}
		if e.unwatched {
			y.bar.interrupt()
			cmdutil.Messagef(y.errs, "codex: changes in the directory %s of the source are not noticed: it cannot be watched\n",
				terminal.Text(e.below))
			continue
		}
		// A changed ignore file affects other paths, too. A name that is not UTF-8 cannot be
		// sent to a server.
		if y.git && path.Base(e.below) == ignoreFile || !utf8.ValidString(e.below) || len(p.gone) >= maxPending {
			p.whole = true
		}
		if p.whole {
			p.gone = nil
			continue
		}
		if p.gone == nil {
			p.gone = make(map[string]bool)
		}
		if e.below == "" {
			e.below = "."
		}
		p.gone[e.below] = e.gone
	}
}

// skips reports whether a path, or a directory above it, is left out.
func (y *syncing) skips(below string, folder bool) bool {
	if y.options.leavesOut(below, folder) {
		return true
	}
	for ; y.git && y.ignored != nil && below != "" && below != "."; below, folder = path.Dir(below), true {
		if y.ignored.leavesOut(below, folder) {
			return true
		}
	}
	return false
}

// round processes the pending changes.
func (y *syncing) round(from, to tree, p *pendingPaths) error {
	y.mu.Lock()
	y.failed, y.stopped, y.again = 0, nil, false
	y.mu.Unlock()
	done, err := false, error(nil)
	if !p.whole {
		y.some = true
		done, err = y.bringSome(from, to, p)
		y.some = false
	}
	if !done && err == nil {
		err = y.bring(from, to)
	}
	if err == nil {
		err = y.fatal()
	}
	y.bar.finish()
	return err
}

// bringSome updates the pending paths of the target. It returns false, and changes nothing, if both
// trees must be compared because a directory must be removed in which entries may be left out.
func (y *syncing) bringSome(from, to tree, p *pendingPaths) (bool, error) {
	asked := p.paths()
	if len(asked) > syncPaths {
		return false, nil
	}
	source, err := y.look(from, asked, false)
	if err != nil {
		return false, fmt.Errorf("list %s: %w", from.shown("."), withoutPath(err))
	}
	target, err := y.look(to, asked, false)
	if err != nil {
		return false, fmt.Errorf("list %s: %w", to.shown("."), withoutPath(err))
	}
	if y.git {
		source.without(y.ignored)
		target.without(y.ignored)
	}
	var doomed []*archive.Entry
	for _, e := range target.entries {
		there := source.at[e.Path]
		// A missing entry that was not reported as removed could not be read, or is being removed.
		if !y.removes || there == nil && !p.gone[e.Path] || there != nil && there.Type == e.Type {
			continue
		}
		if e.Type == archive.Directory && !y.wholeFolders() {
			return false, nil
		}
		doomed = append(doomed, e)
	}
	for below, why := range source.problems {
		if gone := p.gone[below]; !gone && !isMissing(why) {
			y.report(from.shown(below), why)
		}
	}
	return true, y.carry(from, to, source, target, doomed)
}

// paths returns the pending paths and the directories above them: the times of a directory change
// with its entries.
func (p *pendingPaths) paths() []string {
	all := make(map[string]bool, 2*len(p.gone))
	for below := range p.gone {
		for ; !all[below]; below = path.Dir(below) {
			all[below] = true
		}
	}
	list := make([]string, 0, len(all))
	for below := range all {
		list = append(list, below)
	}
	slices.Sort(list)
	return list
}

// isMissing reports whether a path could not be read or copied because it does not exist. Errors in
// archives are plain texts, so it also matches the text.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || strings.HasSuffix(err.Error(), "no such file or directory")
}
