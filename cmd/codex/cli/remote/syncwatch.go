package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
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
	below     string // the path from the source, with slashes; "": the source itself
	gone      bool   // nothing has the name any more
	unwatched bool   // what is in this directory is not told
	folder    bool
}

// sourceWatch tells the changes in the source of a sync. next waits for some, and returns
// lost if there were others that it cannot tell. An error means that there will be none.
type sourceWatch interface {
	next(ctx context.Context) (changes []sourceChange, lost bool, err error)
	close()
}

// serverChanges are those of a directory of the server.
type serverChanges struct {
	watch *execclient.Watch
	root  string // its native path
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

// localChanges are those of a local directory. While nobody asks for them they gather in
// the kernel; when its queue is full, that is told as lost ones.
type localChanges struct {
	root    string
	tree    *watch.Tree
	ending  *watch.Ending
	cancel  context.CancelFunc
	batches chan watch.Batch // closed when routineBatches has ended
}

// watched begins to watch a local directory, which works on Linux.
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
	if c.tree, err = watch.OpenTree(ctx, root, true, c.ending.Descriptor()); err != nil {
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

// routineBatches takes changes until the watch ends or ctx does. close waits for it.
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
		return nil, false, errors.New("the system tells no more changes")
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

// belowRoot returns the path of a change from the watched directory; "" is that itself.
func belowRoot(root, changed string) string {
	return strings.Trim(strings.TrimPrefix(changed, root), "/")
}

// pendingPaths are the changes that the next round of a sync carries out.
type pendingPaths struct {
	whole bool            // both trees must be looked at: changes were lost, or mean more
	gone  map[string]bool // the paths that have changed; true: the last was that it went
}

// follow keeps the target like the source until the context ends or the source cannot be
// watched any more.
func (y *syncing) follow(from, to tree) error {
	w, err := from.watched() // before the first look: what changes during it is told
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
			// The next request waits until the connection is back, or fails for good.
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

// followAgain synchronizes with once. When the session is lost for good after a first
// round, as it is if the server starts anew or this machine was asleep for long, it connects
// again until the context ends.
func followAgain(ctx context.Context, errs io.Writer, began *bool, once func() error) error {
	for last := ""; ; {
		err := once()
		var lost *execclient.DisconnectedError
		var exit *cmdutil.ExitError
		unreachable := errors.As(err, &exit) && exit.Code == cmdutil.ExitUnreachable
		if ctx.Err() != nil || !*began || !errors.As(err, &lost) && !unreachable {
			return err
		}
		if text := err.Error(); text != last { // not once for each attempt
			cmdutil.Messagef(errs, "codex: %s; connecting again until Ctrl-C\n", terminal.Text(text))
			last = text
		}
		pause := time.NewTimer(redialPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
	}
}

// gather waits for changes, if none are pending, and then takes those of a moment.
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

// pend notes changes for the next round, but those of what is left out.
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
		// What an ignore file says now may be of paths that did not change themselves. Of a
		// name that is not UTF-8, a server cannot be asked alone.
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

// skips reports whether a path, or a directory on the way to it, is left out.
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

// round carries out what is pending.
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

// bringSome brings the pending paths of the target up to date. It returns false, and has
// changed nothing, if both trees must be looked at whole: that is if a directory is to be
// removed of which something may be left out.
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
		// What is neither there nor told to be gone could not be read, or goes just now.
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

// paths returns the pending paths and the directories on the way to them, whose times
// change with their names.
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

// isMissing reports whether something could not be read or copied because it does not
// exist: errors within an archive are texts.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || strings.HasSuffix(err.Error(), "no such file or directory")
}
