package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/host/terminal"
	"codex.internal/pkg/wire/pathuri"
	"github.com/urfave/cli/v2"
)

// wholeLimit is the largest file that is sent in one message, to servers that
// take no blocks.
const wholeLimit = 48 << 20

func remoteCpCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "cp", Usage: "copy files to or from the server", ArgsUsage: "SOURCE... TARGET", OnUsageError: cmdutil.OnUsageError,
		Description: `A path that begins with a colon is the server's, as in scp without a host;
any other is local. Relative paths of the server begin at its own directory,
:~ is its home. The target appears in one step: until then it is as it was.

What is copied here gets the last name that you typed, or that of the target: for
:~ and :. the target needs one. Links below the target are not followed. A device,
a FIFO or a terminal is written into; - is standard input or standard output.

Examples:
   codex remote cp report.pdf :/tmp/
   codex remote cp :/var/log/syslog .
   codex remote cp :/etc/os-release - | head -1
   codex remote cp -r ./src :~/project`,
		Flags: []cli.Flag{
			urlFlag(), envFlag(),
			&cli.BoolFlag{Name: "recursive", Aliases: []string{"r"}, Usage: "copy directories with all that is in them"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "show no progress"},
		},
		Action: func(c *cli.Context) error { return copyFiles(c, s) },
	}
}

func copyFiles(c *cli.Context, s cmdutil.Streams) error {
	args := c.Args().Slice()
	if len(args) < 2 {
		return cmdutil.Usagef("cp needs a source and a target, of which one begins with a colon: codex remote cp FILE :/tmp/")
	}
	sources, target := args[:len(args)-1], args[len(args)-1]
	toServer := strings.HasPrefix(target, ":")
	for _, source := range sources {
		if strings.HasPrefix(source, ":") == toServer {
			return cmdutil.Usagef("cp copies between this machine and the server: either the target or the sources begin with a colon")
		}
	}
	return withFiles(c, func(fs *execclient.FS, at places) error {
		cp := &copying{
			ctx: c.Context, fs: fs, at: at, recursive: c.Bool("recursive"),
			bar: newProgress(s.Err, c.Bool("quiet")), in: s.In, out: s.RawOut,
		}
		defer cp.bar.finish()
		if toServer {
			return cp.upload(sources, target[1:])
		}
		return cp.download(sources, target)
	})
}

// copying is one cp.
type copying struct {
	ctx       context.Context
	fs        *execclient.FS
	at        places
	recursive bool
	bar       *progress
	in        io.Reader // standard input and output of codex
	out       io.Writer
}

// under appends names to a URI.
func under(uri string, names ...string) string {
	return strings.TrimSuffix(uri, "/") + strings.TrimPrefix(pathuri.Format(path.Join(append([]string{"/"}, names...)...)), "file://")
}

// upload copies local files to the server.
func (cp *copying) upload(sources []string, target string) error {
	if target == "" {
		target = "."
	}
	uri, err := cp.at.uri(target)
	if err != nil {
		return err
	}
	m, err := cp.fs.Stat(cp.ctx, uri)
	into := err == nil && m.IsDirectory
	if !into && (len(sources) > 1 || strings.HasSuffix(target, "/")) {
		return fmt.Errorf("the target :%s is not a directory on the server", target)
	}
	for _, source := range sources {
		to := uri
		if into {
			if isInput(source) {
				return fmt.Errorf("standard input has no name of its own to be copied to; name the target too, as in :%s/NAME", strings.TrimSuffix(target, "/"))
			}
			abs, err := filepath.Abs(source)
			if err != nil {
				return err
			}
			to = under(uri, filepath.Base(abs))
			m, err = cp.fs.Stat(cp.ctx, to)
		}
		if err := cp.uploadNamed(source, to, err == nil && !m.IsFile && !m.IsDirectory); err != nil {
			return err
		}
	}
	return nil
}

// uploadNamed copies what the user has named: also the contents of a device or a
// FIFO, and into one, which special says that there is at uri.
func (cp *copying) uploadNamed(source, uri string, special bool) error {
	if isInput(source) {
		return cp.uploadStream(cp.in, "standard input", uri, special)
	}
	st, err := os.Stat(source)
	if err != nil || st.IsDir() || !special && st.Mode().IsRegular() {
		return cp.uploadTree(source, uri)
	}
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	return cp.uploadStream(f, source, uri, special)
}

// uploadTree copies a file or, with recursive, a directory.
func (cp *copying) uploadTree(source, uri string) error {
	st, err := os.Stat(source)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return cp.uploadFile(source, uri, st)
	}
	if !cp.recursive {
		return fmt.Errorf("%s is a directory; copy it with -r", source)
	}
	return filepath.WalkDir(source, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(source, name)
		if err != nil {
			return err
		}
		to := under(uri, filepath.ToSlash(below))
		if d.IsDir() {
			return cp.fs.MkdirAll(cp.ctx, to)
		}
		st, err := os.Stat(name) // links are followed, as scp does
		if err != nil {
			return err
		}
		if st.IsDir() {
			return fmt.Errorf("%s is a link to a directory, which is not copied", name)
		}
		return cp.uploadFile(name, to, st)
	})
}

func (cp *copying) uploadFile(source, uri string, st os.FileInfo) error {
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", source)
	}
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	cp.bar.begin(source, st.Size())
	// Servers that cannot replace a file in one step write into it.
	options := execclient.WriteOptions{Atomic: cp.fs.CanWriteAtomically()}
	err = cp.fs.WriteStream(cp.ctx, uri, &counted{f, cp.bar}, options)
	if errors.Is(err, execclient.ErrUnsupported) {
		err = cp.uploadWhole(f, uri)
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", source, withoutPath(err))
	}
	return nil
}

// counted is a reader whose bytes a progress bar counts.
type counted struct {
	io.Reader
	bar *progress
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.bar.add(n)
	return n, err
}

// uploadWhole sends a file in one message to an old server: beside the target
// first, so that a broken connection leaves the target as it was.
func (cp *copying) uploadWhole(in io.Reader, uri string) error {
	data, err := readWhole(in)
	if err != nil {
		return err
	}
	beside := uri + ".codex-part"
	if err := cp.fs.WriteFile(cp.ctx, beside, data); err != nil {
		return err
	}
	defer func() { _ = cp.fs.Remove(cp.ctx, beside) }()
	cp.bar.add(len(data))
	return cp.fs.Copy(cp.ctx, beside, uri, false)
}

// download copies files of the server here.
func (cp *copying) download(sources []string, target string) error {
	if isOutput(target) {
		return cp.printFiles(sources)
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
	for _, source := range sources {
		uri, err := cp.at.uri(source[1:])
		if err != nil {
			return err
		}
		if into {
			if name, err = nameOf(source[1:]); err != nil {
				return fmt.Errorf("copy %s: %w", source, err)
			}
		}
		if there, err := root.Lstat(name); err == nil && into && isSpecial(there.Mode()) && there.Mode()&fs.ModeSymlink == 0 {
			if err := cp.writeSpecial(source, filepath.Join(dir, name)); err != nil {
				return err
			}
			continue
		}
		if err := cp.downloadTree(uri, root, name, maxDepth); err != nil {
			return fmt.Errorf("copy %s: %w", source, err)
		}
	}
	return nil
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

// downloadTree copies a file or, with recursive, a directory to a name in a
// directory here, with at most depth levels below it. The names in it come from the
// server, so each is checked to be one. The caller tells the source as the user
// typed it.
func (cp *copying) downloadTree(uri string, to *os.Root, name string, depth int) error {
	m, err := cp.fs.Stat(cp.ctx, uri)
	switch {
	case err != nil:
		return withoutPath(err)
	case m.IsFile:
		return cp.downloadFile(uri, to, name, int64(m.Size))
	case !m.IsDirectory:
		return errors.New("it is not a regular file")
	case !cp.recursive:
		return errors.New("it is a directory; copy it with -r")
	case depth == 0:
		return fmt.Errorf("there are more than %d directories in each other", maxDepth)
	}
	dir, err := enter(to, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	entries, err := cp.fs.ReadDir(cp.ctx, uri)
	if err != nil {
		return withoutPath(err)
	}
	for _, e := range entries {
		switch {
		case e.IsLossy:
			return fmt.Errorf("a name in it is no UTF-8: %q", e.FileName)
		case e.FileName == "" || e.FileName == "." || e.FileName == ".." || strings.ContainsAny(e.FileName, "/\x00"):
			return fmt.Errorf("the server sent a name that is none: %q", e.FileName)
		case !e.IsDirectory && !e.IsFile:
			continue // a pipe, a socket or a device
		}
		// On Windows a backslash or a colon would lead out of the target.
		local, err := localName(e.FileName)
		if err != nil {
			return fmt.Errorf("no file can have that name here: %q", e.FileName)
		}
		if err := cp.downloadTree(under(uri, e.FileName), dir, local, depth-1); err != nil {
			return fmt.Errorf("%s: %w", terminal.Text(e.FileName), err)
		}
	}
	return nil
}

// enter opens a directory in another one, which it makes if there is none. Links are
// not followed, wherever they lead: a copy stays below its target.
func enter(in *os.Root, name string) (*os.Root, error) {
	if err := in.Mkdir(name, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
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
		return errors.New("there is a link here already, which is not followed; remove it, or name where it leads as the target")
	}
	return errors.New("there is something else here already, which is not replaced")
}

// downloadFile writes beside the target and renames. It replaces files only: neither
// links nor devices, such as /dev/null.
func (cp *copying) downloadFile(uri string, to *os.Root, name string, size int64) error {
	mode := os.FileMode(0o666) &^ umask()
	switch there, err := to.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("the target's directory %s: %w", to.Name(), withoutPath(err))
	case !there.Mode().IsRegular():
		return fmt.Errorf("%s: %w", filepath.Join(to.Name(), name), notOwn(there))
	default:
		mode = there.Mode().Perm()
	}
	beside := ".codex-" + rand.Text()
	f, err := to.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("the target's directory %s: %w", to.Name(), withoutPath(err))
	}
	defer func() { _ = to.Remove(beside) }()
	defer f.Close()
	cp.bar.begin(name, size)
	r, err := cp.fs.OpenStream(cp.ctx, uri)
	if err != nil {
		return withoutPath(err)
	}
	defer r.Close()
	if _, err := io.Copy(f, &counted{r, cp.bar}); err != nil {
		return err // with the path, which tells which end has failed
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return to.Rename(beside, name)
}
