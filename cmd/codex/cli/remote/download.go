package remote

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/pathuri"
)

// download copies files of the server here.
func (cp *copying) download(sources []string, target string) error {
	if isOutput(target) {
		for _, source := range sources {
			if err := cp.printFile(source, cp.out); err != nil {
				return err
			}
		}
		return nil
	}
	st, err := os.Stat(target)
	into := err == nil && st.IsDir()
	if err == nil && isSpecial(st.Mode()) && len(sources) == 1 {
		return cp.writeSpecial(sources[0], target)
	}
	if !into && (len(sources) > 1 || target != "" && os.IsPathSeparator(target[len(target)-1])) {
		return fmt.Errorf("the target %s is not a directory", target)
	}
	dir, name := target, ""
	if !into {
		dir, name = filepath.Split(target)
		if dir == "" {
			dir = "."
		}
	}
	// The user has named this directory: links on the way to it are followed.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("copy %s: the target's directory %s: %w", sources[0], filepath.Clean(dir), withoutPath(err))
	}
	defer root.Close()
	return cp.each(sources, func(source string) error { return cp.downloadNamed(source, root, name) })
}

// downloadNamed copies what the user has named to a name in a directory; no name means
// that of the source.
func (cp *copying) downloadNamed(source string, root *os.Root, name string) error {
	uri, err := cp.at.uri(source[1:])
	if err != nil {
		return err
	}
	if name == "" {
		if name, err = nameOf(source[1:]); err != nil {
			return fmt.Errorf("copy %s: %w", source, err)
		}
		if there, err := root.Lstat(name); err == nil && isSpecial(there.Mode()) && there.Mode()&fs.ModeSymlink == 0 {
			return cp.writeSpecial(source, filepath.Join(root.Name(), name))
		}
	}
	if err := cp.downloadTop(uri, root, name); err != nil {
		return fmt.Errorf("copy %s: %w", source, err)
	}
	return nil
}

// downloadTop copies a file or, with recursive, a directory. It returns an error if
// nothing was copied; what is wrong below a directory is reported.
func (cp *copying) downloadTop(uri string, root *os.Root, name string) error {
	m, err := cp.fs.Stat(cp.ctx, uri)
	switch {
	case err != nil:
		return withoutPath(err)
	case !m.IsFile && !m.IsDirectory:
		return errors.New("it is not a regular file")
	case !m.IsFile && !cp.options.recursive:
		return errors.New("it is a directory; copy it with -r")
	}
	e := execproto.NamedAttributes{Attributes: attributesOf(m)}
	if cp.fs.HasAttributes() {
		if m.IsSymlink { // the user has named it: what it leads to is copied
			if uri, err = cp.fs.Canonicalize(cp.ctx, uri); err != nil {
				return withoutPath(err)
			}
		}
		if e.Attributes, err = cp.fs.Attributes(cp.ctx, uri); err != nil {
			return withoutPath(err)
		}
	} else {
		cp.warn()
	}
	if m.IsFile {
		return cp.downloadFile(uri, root, name, &e)
	}
	cp.bar.tree()
	if cp.fs.HasArchives() {
		return cp.downloadArchive(uri, root, name, &e)
	}
	f := &downloadFolder{shown: filepath.Join(root.Name(), name), below: ".", uri: uri}
	if err := cp.enterFolder(f, root, name, nil, &e); err != nil {
		return err
	}
	cp.listFolder(f)
	return nil
}

// attributesOf are the attributes of a file of a server that knows no permissions.
func attributesOf(m execproto.Metadata) execproto.Attributes {
	a := execproto.Attributes{Kind: execproto.KindOther, Size: m.Size, ModifiedAtMS: m.ModifiedAtMS, Permissions: 0o666}
	switch {
	case m.IsFile:
		a.Kind = execproto.KindFile
	case m.IsDirectory:
		a.Kind, a.Permissions = execproto.KindDirectory, 0o777
	}
	return a
}

// errNoName refuses to let a server choose a name here: that of its home could be
// .ssh.
var errNoName = errors.New("it has no name of its own to be copied to; name the target too, as in ./NAME")

// nameOf returns the name that a copy of a path of the server gets here: the last
// one that the user typed.
func nameOf(typed string) (string, error) {
	if strings.HasPrefix(typed, "file:") {
		native, err := pathuri.Parse(typed, "")
		if err != nil {
			return "", err
		}
		typed = native
	}
	typed = strings.TrimRight(typed, "/")
	name := typed[strings.LastIndexByte(typed, '/')+1:]
	switch {
	case name == "", name == ".", name == "..", typed == "~":
		return "", errNoName
	}
	local, err := localName(name)
	if err != nil {
		return "", errors.New("no file can have that name here; name the target too")
	}
	return local, nil
}

// downloadFolder is a directory of the server that is being copied into root, whose path
// is shown; below is its path from the source.
type downloadFolder struct {
	*folder
	root              *os.Root
	shown, below, uri string
	depth             int
}

// enterFolder makes and opens the directory that f is copied into, which is closed when
// everything in it is copied.
func (cp *copying) enterFolder(f *downloadFolder, in *os.Root, name string, above *folder, e *execproto.NamedAttributes) error {
	mode := os.FileMode(e.Permissions) & fs.ModePerm
	made, err := mkdirIn(in, name, mode|0o700)
	if err != nil {
		return err
	}
	if f.root, err = enter(in, name); err != nil {
		return err
	}
	f.folder = newFolder(cp.queue, above, func() {
		defer f.root.Close()
		if err := cp.finishLocal(f.root, mode, e, made); err != nil {
			cp.report(f.shown, err)
		}
	})
	return nil
}

// mkdirIn makes a directory if there is none, and reports whether it did.
func mkdirIn(in *os.Root, name string, mode os.FileMode) (made bool, err error) {
	err = in.Mkdir(name, mode)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

// finishLocal sets what could not be set while the directory was written into.
func (cp *copying) finishLocal(dir *os.Root, mode os.FileMode, e *execproto.NamedAttributes, made bool) error {
	if !cp.options.preserve {
		if !made || mode&0o700 == 0o700 {
			return nil
		}
		mode &^= cp.umask
	}
	if cp.fs.HasAttributes() {
		if err := dir.Chmod(".", mode); err != nil {
			return err
		}
	}
	if !cp.options.preserve {
		return nil
	}
	return dir.Chtimes(".", time.Time{}, time.UnixMilli(e.ModifiedAtMS))
}

// listFolder adds what is in a directory of the server to the queue, and ends the task
// of listing it. The names come from the server, so each is checked to be one.
func (cp *copying) listFolder(f *downloadFolder) {
	defer f.done()
	entries, err := cp.entries(f.uri)
	if err != nil {
		cp.report(":"+nativePath(f.uri), err)
	}
	for i := range entries {
		e := &entries[i]
		below := path.Join(f.below, e.FileName)
		if cp.options.excludes(below) {
			continue
		}
		f.add(func() {
			if err := cp.downloadEntry(f, e, below); err != nil {
				cp.report(":"+path.Join(nativePath(f.uri), e.FileName), err)
			}
		})
	}
}

// entries lists a directory of the server. With servers that know no permissions, links
// have no kind yet.
func (cp *copying) entries(uri string) ([]execproto.NamedAttributes, error) {
	if cp.fs.HasAttributes() {
		return cp.fs.ListAttributes(cp.ctx, uri)
	}
	found, err := cp.fs.ReadDir(cp.ctx, uri)
	if err != nil {
		return nil, err
	}
	plain, err := cp.plain(uri)
	if err != nil {
		return nil, err
	}
	list := make([]execproto.NamedAttributes, len(found))
	for i, e := range found {
		list[i] = execproto.NamedAttributes{FileName: e.FileName, IsLossy: e.IsLossy}
		if (e.IsFile || e.IsDirectory) && plain[e.FileName] {
			list[i].Attributes = attributesOf(execproto.Metadata{IsFile: e.IsFile, IsDirectory: e.IsDirectory})
		}
	}
	return list, nil
}

// plain returns the names in a directory that are files and directories themselves, and
// no links: a walk lists nothing else, in one request.
func (cp *copying) plain(uri string) (map[string]bool, error) {
	w, err := cp.fs.Walk(cp.ctx, uri, execproto.WalkOptions{MaxDirectories: 1, MaxEntries: plainEntries})
	if err != nil {
		return nil, err
	}
	names := make(map[string]bool, len(w.Entries))
	for _, e := range w.Entries {
		if native, err := pathuri.Parse(e.Path, ""); err == nil {
			names[path.Base(native)] = true
		}
	}
	return names, nil
}

// downloadEntry copies one name of a directory.
func (cp *copying) downloadEntry(f *downloadFolder, e *execproto.NamedAttributes, below string) error {
	switch {
	case e.IsLossy:
		return errors.New("not copied: the name is not UTF-8")
	case e.FileName == "" || e.FileName == "." || e.FileName == ".." || strings.ContainsAny(e.FileName, "/\x00"):
		return errors.New("not copied: the server sent a name that is none")
	}
	// On Windows a backslash or a colon would lead out of the target.
	name, err := localName(e.FileName)
	if err != nil {
		return errors.New("not copied: no file can have that name here")
	}
	uri := under(f.uri, e.FileName)
	if e.Kind == "" {
		m, err := cp.fs.Stat(cp.ctx, uri)
		if err != nil {
			return withoutPath(err)
		}
		if e.Attributes = attributesOf(m); m.IsSymlink {
			return errors.New("not copied: it is a symbolic link, and this server does not tell where it leads")
		}
	}
	switch e.Kind {
	case execproto.KindFile:
		return cp.downloadFile(uri, f.root, name, e)
	case execproto.KindSymlink:
		return downloadLink(f.root, name, e)
	case execproto.KindDirectory:
		return cp.downloadDirectory(f, uri, name, below, e)
	default:
		return errSpecial
	}
}

func (cp *copying) downloadDirectory(in *downloadFolder, uri, name, below string, e *execproto.NamedAttributes) error {
	if in.depth+1 >= maxDepth {
		return fmt.Errorf("not copied: there are more than %d directories in each other", maxDepth)
	}
	f := &downloadFolder{shown: filepath.Join(in.shown, name), below: below, uri: uri, depth: in.depth + 1}
	if err := cp.enterFolder(f, in.root, name, in.folder, e); err != nil {
		return err
	}
	cp.listFolder(f)
	return nil
}

// downloadLink copies a link as a link. It replaces links only.
func downloadLink(to *os.Root, name string, e *execproto.NamedAttributes) error {
	if e.Target == "" {
		return errors.New("not copied: it is a link to a name that is not UTF-8")
	}
	target := filepath.FromSlash(e.Target)
	err := to.Symlink(target, name)
	if !errors.Is(err, fs.ErrExist) {
		return withoutLinkPath(err)
	}
	there, err := to.Lstat(name)
	if err != nil {
		return err
	}
	if there.Mode()&fs.ModeSymlink == 0 {
		return fmt.Errorf("%s: %w", filepath.Join(to.Name(), name), notOwn(there))
	}
	beside := ".codex-" + rand.Text()
	if err := to.Symlink(target, beside); err != nil {
		return withoutLinkPath(err)
	}
	if err := to.Rename(beside, name); err != nil {
		_ = to.Remove(beside)
		return withoutLinkPath(err)
	}
	return nil
}

// withoutLinkPath is an error of making or renaming a link without the names.
func withoutLinkPath(err error) error {
	var about *os.LinkError
	if errors.As(err, &about) {
		return about.Err
	}
	return err
}

// enter opens a directory in another one. Links are not followed, wherever they lead: a
// copy stays below its target.
func enter(in *os.Root, name string) (*os.Root, error) {
	// A FIFO is not opened: that would wait for its other end.
	there, err := in.Lstat(name)
	if err == nil && !there.IsDir() {
		err = notOwn(there)
	}
	var dir *os.Root
	if err == nil {
		dir, err = in.OpenRoot(name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(in.Name(), name), withoutPath(err))
	}
	// Root follows links that stay inside, so the name may be a link: check that the
	// directory that was opened is the one that the name itself stands for.
	opened, err := dir.Stat(".")
	if err == nil {
		var named os.FileInfo
		if named, err = in.Lstat(name); err == nil && !os.SameFile(opened, named) {
			err = notOwn(named)
		}
	}
	if err != nil {
		_ = dir.Close()
		return nil, fmt.Errorf("%s: %w", filepath.Join(in.Name(), name), withoutPath(err))
	}
	return dir, nil
}

// notOwn says why nothing is written where there is something already.
func notOwn(there os.FileInfo) error {
	if there.Mode()&fs.ModeSymlink != 0 {
		return errors.New("there is a symbolic link here already, which is not followed; remove it, or name where it leads as the target")
	}
	return errors.New("there is something else here already, which is not replaced")
}

// downloadFile writes beside the target and renames. It replaces files only: neither
// links nor devices. A new file gets the permissions of the server's less the umask, one
// that exists keeps its own, and with -p it has the server's.
func (cp *copying) downloadFile(uri string, to *os.Root, name string, e *execproto.NamedAttributes) error {
	mode := os.FileMode(e.Permissions) & fs.ModePerm
	there, err := to.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if !cp.options.preserve || !cp.fs.HasAttributes() {
			mode &^= cp.umask
		}
	case err != nil:
		return fmt.Errorf("the target's directory %s: %w", to.Name(), withoutPath(err))
	case !there.Mode().IsRegular():
		return fmt.Errorf("%s: %w", filepath.Join(to.Name(), name), notOwn(there))
	case !cp.options.preserve || !cp.fs.HasAttributes():
		mode = there.Mode().Perm()
	}
	beside := ".codex-" + rand.Text()
	f, err := to.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("the target's directory %s: %w", to.Name(), withoutPath(err))
	}
	defer func() { _ = to.Remove(beside) }()
	defer f.Close()
	cp.bar.begin(name, int64(e.Size))
	if err := cp.receive(f, uri, e); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if cp.options.preserve {
		if err := to.Chtimes(beside, time.Time{}, time.UnixMilli(e.ModifiedAtMS)); err != nil {
			return err
		}
	}
	return to.Rename(beside, name)
}

// receive writes the contents of a file of the server to f: a small one in one round
// trip.
func (cp *copying) receive(f *os.File, uri string, e *execproto.NamedAttributes) error {
	if cp.fs.HasAttributes() && e.Size <= smallFile {
		data, err := cp.fs.ReadFile(cp.ctx, uri)
		if err != nil {
			return withoutPath(err)
		}
		cp.bar.add(len(data))
		_, err = f.Write(data)
		return err
	}
	if e.Size > smallFile { // else it is small or, from servers without attributes, unknown
		cp.large <- struct{}{}
		defer func() { <-cp.large }()
	}
	r, err := cp.fs.OpenStream(cp.ctx, uri)
	if err != nil {
		return withoutPath(err)
	}
	defer r.Close()
	_, err = io.Copy(f, &counted{r, cp.bar})
	return err // with the path, which tells which end has failed
}
