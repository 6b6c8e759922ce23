package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/wire/pathuri"
	"github.com/urfave/cli/v2"
)

func remoteEditCommand(s cmdutil.Streams) *cli.Command {
	return &cli.Command{
		Name: "edit", Usage: "edit a file of the server with your editor", ArgsUsage: "PATH",
		Description: `Copies the file to this machine, runs the editor of VISUAL or EDITOR, and writes the
file back in one step. A file that does not exist is created. If the editor fails, or
the file has not changed, nothing is written.

If the file was changed on the server while you edited it, it is not overwritten. The
copy with your changes is kept on this machine, and the error names it.

Example:
   EDITOR='code --wait' codex remote edit '~/project/main.go'`,
		Flags: serverFlags(cmdutil.RemoteFiles),
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return cmdutil.Usagef("edit takes the path of one file on the server, got %d", c.NArg())
			}
			typed := c.Args().First()
			return withFiles(c, func(fs *execclient.FS, at places) error {
				uri, err := at.marked(typed)
				if err == nil {
					err = (&editing{ctx: c.Context, fs: fs, errs: s.Err}).edit(uri)
				}
				if err != nil {
					return fmt.Errorf("edit %s: %w", typed, withoutPath(err))
				}
				return nil
			})
		},
	}
}

// editing is one edit.
type editing struct {
	ctx  context.Context
	fs   *execclient.FS
	errs io.Writer
}

// contents describe a file: whether it exists, and the sum of its contents.
type contents struct {
	exists bool
	sum    [sha256.Size]byte
}

// edit copies a file, runs the editor, and writes the file back.
func (e *editing) edit(uri string) error {
	data, before, err := e.read(uri)
	if err != nil {
		return err
	}
	name, err := e.local(uri, data)
	if err != nil {
		return err
	}
	failed := e.run(name)
	changed := changedCopy(name, sha256.Sum256(data))
	switch {
	case failed == nil && changed:
		failed = e.write(uri, name, before)
	case failed == nil:
		fmt.Fprintln(e.errs, "codex: nothing was changed")
	}
	if failed != nil && changed {
		return fmt.Errorf("%w; the copy with your changes is %s", withoutPath(failed), name)
	}
	return errors.Join(failed, os.RemoveAll(filepath.Dir(name)))
}

// changedCopy reports whether the local copy has changed. If it cannot be read, it counts as
// changed, so that it is not removed.
func changedCopy(name string, before [sha256.Size]byte) bool {
	data, err := os.ReadFile(name)
	return err != nil || sha256.Sum256(data) != before
}

// read returns the contents of a file of the server. If the file does not exist, it returns no contents.
func (e *editing) read(uri string) ([]byte, contents, error) {
	there, err := e.fs.Stat(e.ctx, uri)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, contents{}, e.checkDirectory(uri)
	case err != nil:
		return nil, contents{}, err
	case !there.IsFile:
		return nil, contents{}, errors.New("it is not a regular file")
	}
	r, err := e.fs.OpenStream(e.ctx, uri)
	if err != nil {
		return nil, contents{}, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxEdited+1))
	if err == nil && len(data) > maxEdited {
		err = fmt.Errorf("it has more than %d MiB, the limit of codex remote edit", maxEdited>>20)
	}
	return data, contents{true, sha256.Sum256(data)}, err
}

// checkDirectory returns an error if the directory of a new file does not exist. So the user learns
// this before editing and not afterwards.
func (e *editing) checkDirectory(uri string) error {
	dir := path.Dir(uri)
	there, err := e.fs.Stat(e.ctx, dir)
	if err == nil && !there.IsDirectory {
		err = errors.New("not a directory")
	}
	if err != nil {
		return fmt.Errorf("the directory of the new file: %w; make it with codex remote mkdir -p", withoutPath(err))
	}
	return nil
}

// local writes the copy to edit, which only this user can read, and returns its path. The copy has
// the file's name, from which editors choose a mode.
func (e *editing) local(uri string, data []byte) (string, error) {
	native, err := pathuri.Parse(uri, "")
	if err != nil {
		return "", err
	}
	base, err := localName(path.Base(filepath.ToSlash(native)))
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "codex-edit-")
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, base)
	if err := os.WriteFile(name, data, 0o600); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return name, nil
}

// run runs the editor.
func (e *editing) run(name string) error {
	// The terminal sends Ctrl-C to this program, too, but the user means the editor.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	editor := editorCommand(editorName(), name)
	editor.Stdin, editor.Stdout, editor.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := editor.Run(); err != nil {
		return fmt.Errorf("the editor %s failed, and nothing was written: %w", editorName(), err)
	}
	return nil
}

// editorName returns the command line of the editor.
func editorName() string {
	for _, variable := range []string{"VISUAL", "EDITOR"} {
		if editor := os.Getenv(variable); strings.TrimSpace(editor) != "" {
			return editor
		}
	}
	return defaultEditor
}

// write writes the copy back, unless the file on the server has changed.
func (e *editing) write(uri, name string, before contents) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	_, now, err := e.read(uri)
	switch {
	case err != nil:
		return err
	case now != before && !now.exists:
		return errors.New("it was removed from the server while you edited it")
	case now != before:
		return errors.New("it was changed on the server while you edited it")
	}
	if !e.fs.CanWriteAtomically() {
		return writeBeside(e.ctx, e.fs, uri, data)
	}
	return e.fs.WriteStream(e.ctx, uri, bytes.NewReader(data), execclient.WriteOptions{Atomic: true})
}
