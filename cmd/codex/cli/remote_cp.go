package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/pathuri"
	"github.com/urfave/cli/v2"
)

// wholeLimit is the largest file that is sent in one message, to servers that
// take no blocks.
const wholeLimit = 48 << 20

func remoteCpCommand(s streams) *cli.Command {
	return &cli.Command{
		Name: "cp", Usage: "copy files to or from the server", ArgsUsage: "SOURCE... TARGET", OnUsageError: onUsageError,
		Description: `A path that begins with a colon is the server's, as in scp without a host;
any other is local. Relative paths of the server begin at its own directory,
:~ is its home. The target appears in one step: until then it is as it was.

Examples:
   codex remote cp report.pdf :/tmp/
   codex remote cp :/var/log/syslog .
   codex remote cp -r ./src :~/project`,
		Flags: []cli.Flag{
			urlFlag(), envFlag(),
			&cli.BoolFlag{Name: "recursive", Aliases: []string{"r"}, Usage: "copy directories with all that is in them"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "show no progress"},
		},
		Action: func(c *cli.Context) error { return copyFiles(c, s) },
	}
}

func copyFiles(c *cli.Context, s streams) error {
	args := c.Args().Slice()
	if len(args) < 2 {
		return usagef("cp needs a source and a target, of which one begins with a colon: codex remote cp FILE :/tmp/")
	}
	sources, target := args[:len(args)-1], args[len(args)-1]
	toServer := strings.HasPrefix(target, ":")
	for _, source := range sources {
		if strings.HasPrefix(source, ":") == toServer {
			return usagef("cp copies between this machine and the server: either the target or the sources begin with a colon")
		}
	}
	return withFiles(c, func(fs *execclient.FS, at places) error {
		cp := &copying{
			ctx: c.Context, fs: fs, at: at, recursive: c.Bool("recursive"),
			bar: newProgress(s.err, c.Bool("quiet")),
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
			abs, err := filepath.Abs(source)
			if err != nil {
				return err
			}
			to = under(uri, filepath.Base(abs))
		}
		if err := cp.uploadTree(source, to); err != nil {
			return err
		}
	}
	return nil
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
		err = cp.uploadWhole(f, uri, st.Size())
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
func (cp *copying) uploadWhole(f *os.File, uri string, size int64) error {
	if size > wholeLimit {
		return fmt.Errorf("this server takes files of at most %d bytes", wholeLimit)
	}
	data, err := io.ReadAll(io.LimitReader(f, wholeLimit+1))
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
	st, err := os.Stat(target)
	into := err == nil && st.IsDir()
	if !into && (len(sources) > 1 || target != "" && os.IsPathSeparator(target[len(target)-1])) {
		return fmt.Errorf("the target %s is not a directory", target)
	}
	for _, source := range sources {
		uri, err := cp.at.uri(source[1:])
		if err != nil {
			return err
		}
		to := target
		if into {
			native, err := pathuri.Parse(uri, "")
			if err != nil {
				return err
			}
			name, err := localName(path.Base(native))
			if err != nil {
				return fmt.Errorf("copy %s: no file can have that name here; name the target too", source)
			}
			to = filepath.Join(target, name)
		}
		if err := cp.downloadTree(uri, to); err != nil {
			return fmt.Errorf("copy %s: %w", source, err)
		}
	}
	return nil
}

// downloadTree copies a file or, with recursive, a directory. The names come
// from the server, so each is checked to be one. The caller tells the source as
// the user typed it.
func (cp *copying) downloadTree(uri, target string) error {
	m, err := cp.fs.Stat(cp.ctx, uri)
	switch {
	case err != nil:
		return withoutPath(err)
	case m.IsFile:
		return cp.downloadFile(uri, target, int64(m.Size))
	case !m.IsDirectory:
		return errors.New("it is not a regular file")
	case !cp.recursive:
		return errors.New("it is a directory; copy it with -r")
	}
	if err := os.MkdirAll(target, 0o777); err != nil {
		return err
	}
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
		if err := cp.downloadTree(under(uri, e.FileName), filepath.Join(target, local)); err != nil {
			return fmt.Errorf("%s: %w", e.FileName, err)
		}
	}
	return nil
}

// downloadFile writes beside the target and renames.
func (cp *copying) downloadFile(uri, target string, size int64) error {
	dir := filepath.Dir(target)
	f, err := os.CreateTemp(dir, "."+filepath.Base(target)+".*")
	if err != nil {
		return fmt.Errorf("the target's directory %s: %w", dir, withoutPath(err))
	}
	defer os.Remove(f.Name())
	defer f.Close()
	cp.bar.begin(target, size)
	r, err := cp.fs.OpenStream(cp.ctx, uri)
	if err != nil {
		return withoutPath(err)
	}
	defer r.Close()
	if _, err := io.Copy(f, &counted{r, cp.bar}); err != nil {
		return err // with the path, which tells which end has failed
	}
	mode := os.FileMode(0o666) &^ umask()
	if st, err := os.Stat(target); err == nil {
		mode = st.Mode().Perm()
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), target)
}
