package soak

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
)

// steps runs functions until one fails.
func steps(all ...func() error) error {
	for i, step := range all {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// files creates, reads, changes and removes files of all kinds.
func files(ctx context.Context, v *visit, f *execclient.FS) error {
	dir, text := v.dir+"/d", []byte("text of "+v.dir)
	return steps(
		func() error { return f.Mkdir(ctx, dir) },
		func() error { return f.WriteFile(ctx, dir+"/one", text) },
		func() error { return f.Copy(ctx, dir+"/one", dir+"/two", false) },
		func() error { return f.Rename(ctx, dir+"/two", dir+"/three", execclient.RenameOptions{}) },
		func() error {
			got, err := f.ReadFile(ctx, dir+"/three")
			return errors.Join(err, expect("contents", string(got), string(text)))
		},
		func() error { return f.Symlink(ctx, "three", dir+"/link", execclient.SymlinkOptions{}) },
		func() error {
			m, err := f.Stat(ctx, dir+"/link")
			return errors.Join(err, expect("a link", m.IsSymlink, true))
		},
		func() error {
			mode := fs.FileMode(0o640)
			return f.SetAttributes(ctx, dir+"/three", execclient.AttributeChanges{Permissions: &mode, Modified: time.Unix(1e9, 0)})
		},
		func() error { _, err := f.Attributes(ctx, dir+"/three"); return err },
		func() error {
			names, err := f.ListAttributes(ctx, dir)
			return errors.Join(err, expect("names", len(names), 3))
		},
		func() error {
			entries, err := f.ReadDir(ctx, dir)
			return errors.Join(err, expect("entries", len(entries), 3))
		},
		func() error {
			uri, err := f.Canonicalize(ctx, dir+"/link")
			return errors.Join(err, expect("its target", uri, "file://"+dir+"/three"))
		},
		func() error {
			r, err := f.Walk(ctx, v.dir, execproto.WalkOptions{MaxDepth: 3, MaxDirectories: 100, MaxEntries: 100})
			return errors.Join(err, expect("errors of a walk", len(r.Errors), 0))
		},
		func() error { return f.Remove(ctx, dir+"/one") },
		func() error { return f.RemoveAll(ctx, dir) },
	)
}

// streams writes a file in blocks and in one step, abandons a write, and reads a file in blocks.
func streams(ctx context.Context, v *visit, f *execclient.FS) error {
	data := bytes.Repeat([]byte("0123456789abcdef"), 1+v.rng.IntN(100_000))
	name := v.dir + "/stream"
	return steps(
		func() error {
			return f.WriteStream(ctx, name, bytes.NewReader(data), execclient.WriteOptions{Atomic: v.rng.IntN(2) == 0})
		},
		func() error {
			r, err := f.OpenStream(ctx, name)
			if err != nil {
				return err
			}
			defer r.Close()
			got, err := io.ReadAll(r)
			if err == nil && !bytes.Equal(got, data) {
				err = fmt.Errorf("%d bytes written, %d read, or others", len(data), len(got))
			}
			return err
		},
		func() error { // this write is abandoned
			w, err := f.Create(ctx, name, execclient.WriteOptions{Atomic: true})
			if err != nil {
				return err
			}
			defer w.Abort()
			_, err = w.Write(data)
			return err
		},
		func() error { // the file stays open until the connection closes it
			if v.rng.IntN(4) > 0 {
				return nil
			}
			v.left = 0
			_, err := f.Open(ctx, name)
			return err
		},
	)
}

// archives packs a tree on the server and unpacks it again.
func archives(ctx context.Context, v *visit, f *execclient.FS) error {
	const count = 20
	tree, copied := v.dir+"/tree", v.dir+"/copy"
	for _, dir := range []string{tree, copied} {
		if err := v.MakeDirectory(dir); err != nil {
			return err
		}
	}
	packed, err := pack(count)
	if err != nil {
		return err
	}
	if err := unpack(ctx, f, tree, packed); err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	r, err := f.OpenArchive(ctx, tree, execclient.ArchiveOptions{})
	if err != nil {
		return err
	}
	defer r.Close()
	again, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("pack: %w", err)
	}
	if err := unpack(ctx, f, copied, again); err != nil {
		return fmt.Errorf("unpack what was packed: %w", err)
	}
	entries, err := f.ReadDir(ctx, copied)
	if err != nil {
		return err
	}
	return expect("files", len(entries), count)
}

func pack(count int) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := range count {
		text := strings.Repeat("x", i*1000)
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprint("f", i), Mode: 0o644, Size: int64(len(text))}); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(w, text); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

func unpack(ctx context.Context, f *execclient.FS, dir string, archive []byte) error {
	var failed error
	w, err := f.CreateArchive(ctx, dir, execclient.ExtractOptions{
		Failed:  func(path, message string) { failed = fmt.Errorf("%s: %s", path, message) },
		Unnamed: func(n uint64) { failed = fmt.Errorf("%d more entries failed", n) },
	})
	if err != nil {
		return err
	}
	if _, err := w.Write(archive); err != nil {
		w.Abort()
		return err
	}
	return errors.Join(w.Close(), failed)
}

// watch waits until the server reports a new file.
func watch(ctx context.Context, v *visit, f *execclient.FS) error {
	w, err := f.Watch(ctx, v.dir, execclient.WatchOptions{Recursive: true})
	if err != nil {
		return err
	}
	defer w.Close()
	if err := v.client.FS().WriteFile(ctx, v.dir+"/new", []byte("x")); err != nil {
		return err
	}
	for {
		changes, err := w.Next(ctx)
		if err != nil {
			return err
		}
		for _, e := range changes.Events {
			if strings.HasSuffix(e.Path, "/new") {
				return nil
			}
		}
		if changes.Overflow { // the connection was lost meanwhile
			return nil
		}
	}
}

// watchMissing watches for a file in the same way as Codex CLI. The client does not pass the
// notification on.
func watchMissing(ctx context.Context, v *visit) error {
	v.count++
	var r execproto.WatchMissingResult
	err := v.client.Call(ctx, execproto.MethodFSWatchMissing, &execproto.WatchMissingParams{
		WatchID: v.count, Missing: []string{"file://" + v.dir + "/later"},
	}, &r)
	if err != nil {
		return err
	}
	if !r.Watching {
		return errors.New("it is not watched")
	}
	if v.rng.IntN(2) == 0 {
		return nil // the watch ends with the connection, or when the next one replaces it
	}
	return v.client.FS().WriteFile(ctx, v.dir+"/later", []byte("x"))
}
