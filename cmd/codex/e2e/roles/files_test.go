package roles

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/testutil"
)

// fileAttack tries to read or change a path. It returns the data that it has read.
type fileAttack struct {
	name string
	try  func(ctx context.Context, f *execclient.FS, path string) (string, error)
}

// readAttacks read a path in all possible ways.
var readAttacks = []fileAttack{
	{"readFile", func(ctx context.Context, f *execclient.FS, path string) (string, error) {
		text, err := f.ReadFile(ctx, path)
		return string(text), err
	}},
	{"open", func(ctx context.Context, f *execclient.FS, path string) (string, error) {
		r, err := f.Open(ctx, path)
		if err != nil {
			return "", err
		}
		defer r.Close()
		text, err := io.ReadAll(r)
		return string(text), err
	}},
	{"getMetadata", func(ctx context.Context, f *execclient.FS, path string) (string, error) {
		_, err := f.Stat(ctx, path)
		return "", err
	}},
	{"canonicalize", func(ctx context.Context, f *execclient.FS, path string) (string, error) {
		return f.Canonicalize(ctx, path)
	}},
	{"readDirectory", func(ctx context.Context, f *execclient.FS, path string) (string, error) {
		_, err := f.ReadDir(ctx, strings.TrimSuffix(path, "/secret"))
		return "", err
	}},
	{"walk", func(ctx context.Context, f *execclient.FS, path string) (string, error) {
		r, err := f.Walk(ctx, strings.TrimSuffix(path, "/secret"), execproto.WalkOptions{MaxDepth: 3, MaxDirectories: 10, MaxEntries: 10, FollowDirectorySymlinks: true})
		if err == nil && len(r.Entries) == 0 {
			err = fs.ErrNotExist
		}
		return "", err
	}},
	{"getAttributes", func(ctx context.Context, f *execclient.FS, path string) (string, error) {
		_, err := f.Attributes(ctx, path)
		return "", err
	}},
	{"archive", func(ctx context.Context, f *execclient.FS, path string) (string, error) {
		r, err := f.OpenArchive(ctx, strings.TrimSuffix(path, "/secret"), execclient.ArchiveOptions{})
		if err != nil {
			return "", err
		}
		defer r.Close()
		text, err := io.ReadAll(r)
		return string(text), err
	}},
	{"watch", func(ctx context.Context, f *execclient.FS, path string) (string, error) {
		w, err := f.Watch(ctx, strings.TrimSuffix(path, "/secret"), execclient.WatchOptions{})
		if err == nil {
			_ = w.Close()
		}
		return "", err
	}},
}

// changeAttacks change a path in all possible ways.
func (w *world) changeAttacks() []fileAttack {
	change := func(name string, try func(ctx context.Context, f *execclient.FS, path string) error) fileAttack {
		return fileAttack{name, func(ctx context.Context, f *execclient.FS, path string) (string, error) { return "", try(ctx, f, path) }}
	}
	return []fileAttack{
		change("writeFile", func(ctx context.Context, f *execclient.FS, path string) error {
			return f.WriteFile(ctx, path, []byte("x"))
		}),
		change("a new file", func(ctx context.Context, f *execclient.FS, path string) error {
			return f.WriteFile(ctx, path+".new", []byte("x"))
		}),
		change("atomic write", func(ctx context.Context, f *execclient.FS, path string) error {
			return f.WriteStream(ctx, path, strings.NewReader("x"), execclient.WriteOptions{})
		}),
		change("createDirectory", func(ctx context.Context, f *execclient.FS, path string) error { return f.MkdirAll(ctx, path+".d/e") }),
		change("remove", func(ctx context.Context, f *execclient.FS, path string) error { return f.Remove(ctx, path) }),
		change("copy there", func(ctx context.Context, f *execclient.FS, path string) error {
			return f.Copy(ctx, w.ws+"/f", path+".copy", false)
		}),
		change("copy from there", func(ctx context.Context, f *execclient.FS, path string) error {
			return f.Copy(ctx, path, w.ws+"/copied", false)
		}),
		change("rename there", func(ctx context.Context, f *execclient.FS, path string) error {
			return f.Rename(ctx, w.ws+"/f", path+".moved", execclient.RenameOptions{})
		}),
		change("rename from there", func(ctx context.Context, f *execclient.FS, path string) error {
			return f.Rename(ctx, path, w.ws+"/moved", execclient.RenameOptions{})
		}),
		change("replace", func(ctx context.Context, f *execclient.FS, path string) error {
			return f.Rename(ctx, w.ws+"/f", path, execclient.RenameOptions{Overwrite: true})
		}),
		change("chmod", func(ctx context.Context, f *execclient.FS, path string) error { return f.Chmod(ctx, path, 0o777) }),
		change("times", func(ctx context.Context, f *execclient.FS, path string) error {
			return f.Chtimes(ctx, path, time.Unix(1, 0))
		}),
		change("symlink", func(ctx context.Context, f *execclient.FS, path string) error {
			return f.Symlink(ctx, "x", path+".link", execclient.SymlinkOptions{})
		}),
		change("archive", func(ctx context.Context, f *execclient.FS, path string) error {
			return extract(ctx, f, strings.TrimSuffix(path, "/secret"), tar.Header{Name: "new", Typeflag: tar.TypeReg, Mode: 0o644})
		}),
	}
}

// beyondLandlock are requests that Landlock does not restrict. They reveal the existence of a path,
// its attributes and the targets of links, but no content (docs/operations.md).
var beyondLandlock = []string{"getMetadata", "canonicalize", "getAttributes"}

// withoutLandlock are changes in a directory of the token that do not work with Landlock. To protect
// names such as .git, Landlock permits no new names beside them. System calls for attributes are
// filtered.
var withoutLandlock = []string{"copy from there", "rename there", "rename from there", "replace", "chmod", "times"}

// extract makes the server extract an archive of files with the content x.
func extract(ctx context.Context, f *execclient.FS, path string, headers ...tar.Header) error {
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = 1
		}
		if err := w.WriteHeader(&h); err != nil {
			return err
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte("x")); err != nil {
				return err
			}
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	var failed []error
	a, err := f.CreateArchive(ctx, path, execclient.ExtractOptions{
		Failed: func(path, message string) { failed = append(failed, errors.New(path+": "+message)) }, Unnamed: func(uint64) {},
	})
	if err != nil {
		return err
	}
	if _, err = a.Write(text.Bytes()); err == nil {
		err = a.Close()
	}
	return errors.Join(append(failed, err)...)
}

// TestFilesUnderACeiling: no file request reaches a path outside of the token's directory, whether
// the request has a sandbox or not.
func TestFilesUnderACeiling(t *testing.T) {
	someWorld(t, func(w *world) {
		token := w.token("--role", "run", "--cwd", w.ws)
		w.serve()
		ctx, files := w.t.Context(), w.client(token).FS()
		// Extract archives with names and links that lead outside.
		err := extract(ctx, files, w.ws,
			tar.Header{Name: "../beside/dots", Typeflag: tar.TypeReg, Mode: 0o644},
			tar.Header{Name: w.beside + "/absolute", Typeflag: tar.TypeReg, Mode: 0o644},
			tar.Header{Name: "link/through", Typeflag: tar.TypeReg, Mode: 0o644},
			tar.Header{Name: "out", Typeflag: tar.TypeSymlink, Linkname: w.beside},
			tar.Header{Name: "out/through", Typeflag: tar.TypeReg, Mode: 0o644},
			tar.Header{Name: "hard", Typeflag: tar.TypeLink, Linkname: w.beside + "/secret"},
			tar.Header{Name: "hard2", Typeflag: tar.TypeLink, Linkname: "link/secret"})
		if err == nil {
			w.t.Error("an archive that leads outside is taken")
		}
		w.untouched("an archive")
		sandboxes := map[string]object{
			"none": nil, "outside": managed(at(w.ws, "write"), at(w.beside, "write"), at(w.ws+"/link", "write")),
			"project": with(managed(special("root", "write"), special("project_roots", "write")), "cwd", uri(w.beside)),
		}
		outside := []string{w.ws + "/../beside/secret", w.ws + "/link/secret", "/proc/self/root" + w.beside + "/secret"}
		for name, paths := range testutil.Pairs(w.t.Name(), slices.Sorted(maps.Keys(sandboxes)), outside) {
			f := files
			if sandbox := sandboxes[name]; sandbox != nil {
				f = files.WithSandbox(raw(w.t, sandbox))
			}
			for _, path := range paths {
				for _, a := range append(readAttacks, w.changeAttacks()...) {
					read, err := a.try(ctx, f, path)
					if err == nil && w.backend == "landlock" && slices.Contains(beyondLandlock, a.name) {
						continue
					}
					if err == nil || strings.Contains(read, "secret") {
						w.t.Errorf("sandbox %s: %s of %s: %q, %v", name, a.name, path, read, err)
					}
				}
			}
			w.untouched("the sandbox " + name)
		}
		w.controls(files)
	})
}

// controls checks that each attack works inside of the directory.
func (w *world) controls(files *execclient.FS) {
	w.t.Helper()
	ctx := w.t.Context()
	w.write(w.ws+"/sub/secret", "secret")
	for _, a := range readAttacks {
		if _, err := a.try(ctx, files, w.ws+"/sub/secret"); err != nil {
			w.t.Errorf("the control, %s: %v", a.name, err)
		}
	}
	for _, a := range w.changeAttacks() {
		harness.Must(w.t, os.RemoveAll(w.ws+"/sub"))
		harness.Must(w.t, os.Mkdir(w.ws+"/sub", 0o755))
		w.own(w.ws + "/sub")
		w.write(w.ws+"/sub/secret", "secret")
		w.write(w.ws+"/f", "text")
		_, err := a.try(ctx, files, w.ws+"/sub/secret")
		if refused := w.backend == "landlock" && slices.Contains(withoutLandlock, a.name); refused != (err != nil) {
			w.t.Errorf("the control, %s: %v", a.name, err)
		}
	}
}

// TestLargeFilesUnderACeiling: a client whose requests are confined reads a file of 120 MiB in one
// request, like a client without a sandbox. The answer is larger than its share of the memory. A
// relayed message must be smaller.
func TestLargeFilesUnderACeiling(t *testing.T) {
	someWorld(t, func(w *world) {
		size := 120 << 20
		if w.relayed {
			size = 40 << 20
		}
		w.write(w.ws+"/large", "begin")
		harness.Must(w.t, os.Truncate(w.ws+"/large", int64(size)))
		token := w.token("--role", "read", "--cwd", w.ws)
		w.serve()
		data, err := w.client(token).FS().ReadFile(w.t.Context(), w.ws+"/large")
		if err != nil || len(data) != size || !bytes.HasPrefix(data, []byte("begin")) {
			w.t.Errorf("got %d bytes, error %v; want %d bytes that begin with begin", len(data), err, size)
		}
	})
}
