// Command release creates the files of a release from the output of scripts/release: archives,
// packages, images and lists of components. It does not change its input, and the same input gives
// the same bytes.
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// release describes the output and the input.
type release struct {
	version string
	date    time.Time // of everything inside
	root    string    // the repository
	built   string    // has bin/SYSTEM-MACHINE/PROGRAM, doc/man and doc/completions
	modules string    // the module cache, which has the licenses of modules
	goRoot  string    // has that of Go
	out     string
	targets []target

	maintainer string // NAME <ADDRESS>, in packages
}

// target is a kind of machine.
type target struct{ system, machine string }

var targets = []target{
	{"linux", "amd64"}, {"linux", "arm64"},
	{"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"},
}

func main() {
	var r release
	var epoch int64
	flag.StringVar(&r.version, "version", "", "the version of the release")
	flag.Int64Var(&epoch, "epoch", 0, "the date of the release, in seconds since 1970")
	flag.StringVar(&r.root, "root", "", "the repository")
	flag.StringVar(&r.built, "built", "", "the directory with the built programs")
	flag.StringVar(&r.modules, "modules", "", "the directory that GOMODCACHE names")
	flag.StringVar(&r.goRoot, "goroot", "", "the directory that GOROOT names")
	flag.StringVar(&r.maintainer, "maintainer", "", "the `NAME <ADDRESS>` of the packages' maintainer")
	flag.StringVar(&r.out, "out", "", "the directory for the files")
	wanted := flag.String("targets", "", "the kinds of machines, with blanks between them")
	flag.Parse()
	for _, t := range targets {
		if slices.Contains(strings.Fields(*wanted), t.String()) {
			r.targets = append(r.targets, t)
		}
	}
	r.date = time.Unix(epoch, 0).UTC()
	if err := r.make(); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

func (r *release) make() error {
	for _, t := range r.targets {
		if err := r.archive(t); err != nil {
			return fmt.Errorf("archive for %s: %w", t, err)
		}
		if err := r.parts(t); err != nil {
			return fmt.Errorf("parts of %s: %w", t, err)
		}
		if t.system != "linux" {
			continue
		}
		for _, format := range []string{"deb", "rpm"} {
			if err := r.makePackage(t, format); err != nil {
				return fmt.Errorf("%s for %s: %w", format, t, err)
			}
		}
	}
	if err := r.image(); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	return nil
}

func (t target) String() string { return t.system + "-" + t.machine }

// programs are the programs of a target; the first is codex.
func (t target) programs() []string {
	if t.system == "linux" {
		return []string{"codex", "codex-fs", "codex-linux-sandbox"}
	}
	return []string{"codex"}
}

// bin returns the path of a built program.
func (r *release) bin(t target, program string) string {
	return filepath.Join(r.built, "bin", t.String(), program)
}

// file is a file of an archive, a package or an image.
type file struct {
	name string // in the archive
	from string // on this machine
	mode os.FileMode
}

// documents are the files that the archive of a target contains besides the programs.
func (r *release) documents(t target) ([]file, error) {
	licenses, err := r.licenses(t)
	if err != nil {
		return nil, err
	}
	files := []file{licenses}
	for _, name := range []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "SECURITY.md"} {
		files = append(files, file{name, filepath.Join(r.root, name), 0o644})
	}
	// README.md links to docs, and the alerts, the dashboard and the manifests for Kubernetes are there.
	err = filepath.WalkDir(filepath.Join(r.root, "docs"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(r.root, path)
		files = append(files, file{filepath.ToSlash(name), path, 0o644})
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{"man", "completions"} {
		entries, err := os.ReadDir(filepath.Join(r.built, "doc", dir))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			files = append(files, file{dir + "/" + e.Name(), filepath.Join(r.built, "doc", dir, e.Name()), 0o644})
		}
	}
	return files, nil
}
