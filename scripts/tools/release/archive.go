package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
)

// archive creates the archive of a target: .zip for Windows, .tar.gz for other systems. All files
// are in one directory.
func (r *release) archive(t target) error {
	base := "codex-exec-server-" + r.version + "-" + t.String()
	files, err := r.documents(t)
	if err != nil {
		return err
	}
	for _, program := range t.programs() {
		name := program
		if t.system == "windows" {
			name += ".exe"
		}
		files = append(files, file{name, r.bin(t, program), 0o755})
	}
	if t.system == "windows" {
		return r.create(base+".zip", func(w io.Writer) error { return r.zip(w, base, files) })
	}
	return r.create(base+".tar.gz", func(w io.Writer) error { return r.tarGz(w, base, files) })
}

// create makes a file of the release.
func (r *release) create(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(filepath.Join(r.out, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

func (r *release) zip(w io.Writer, base string, files []file) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		h := &zip.FileHeader{Name: base + "/" + f.name, Method: zip.Deflate, Modified: r.date}
		h.SetMode(f.mode)
		to, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if err := copyFile(to, f.from); err != nil {
			return err
		}
	}
	return z.Close()
}

func (r *release) tarGz(w io.Writer, base string, files []file) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	z.ModTime = r.date
	if err := r.tar(z, base+"/", files); err != nil {
		return err
	}
	return z.Close()
}

// tar writes files that belong to root, each below a prefix.
func (r *release) tar(w io.Writer, prefix string, files []file) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		info, err := os.Stat(f.from)
		if err != nil {
			return err
		}
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: prefix + f.name, Size: info.Size(), Mode: int64(f.mode),
			ModTime: r.date, Uname: "root", Gname: "root", Format: tar.FormatPAX,
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if err := copyFile(t, f.from); err != nil {
			return err
		}
	}
	return t.Close()
}

func copyFile(to io.Writer, from string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(to, f)
	return err
}
