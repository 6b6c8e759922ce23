package main

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goreleaser/nfpm/v2/files"
)

// packaged returns the contents of a package, made of placeholders for the programs and for what scripts/release
// generates.
func packaged(t *testing.T, format string) files.Contents {
	t.Helper()
	r, _ := testRelease(t)
	linux := target{"linux", "amd64"}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"bin/linux-amd64", "doc/man", "doc/completions"} {
		if err := os.MkdirAll(filepath.Join(r.built, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range linux.programs() {
		if err := os.Symlink(self, r.bin(linux, program)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"man/codex.1", "man/exec-server.toml.5", "completions/codex.bash"} {
		if err := os.WriteFile(filepath.Join(r.built, "doc", name), []byte("x\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	contents, err := r.contents(linux, format)
	if err != nil {
		t.Fatal(err)
	}
	return contents
}

// relativeLink matches a link of Markdown to a path, without its fragment.
var relativeLink = regexp.MustCompile(`\]\(([^)#: ]+)`)

// source matches the path that a link to the program's source has in a package.
var source = regexp.MustCompile("^" + docs + "/(cmd|pkg|proto)/")

// TestPackagedDocuments: a package has the manual page of the file with options, and each file to which a document of the package links, but for
// the program's source. Each directory of documents is listed, so that rpm removes it.
func TestPackagedDocuments(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"deb", "rpm"} {
		all := packaged(t, format)
		has := func(path string) bool {
			return slices.ContainsFunc(all, func(c *files.Content) bool {
				return c.Destination == path || strings.HasPrefix(c.Destination, path+"/")
			})
		}
		for _, want := range []string{
			"/usr/share/man/man1/codex.1.gz", "/usr/share/man/man5/exec-server.toml.5.gz",
			docs + "/docs/operations.md", docs + "/docs/operations/prometheus/alerts.yml", docs + "/docs/operations/prometheus/grafana.json",
			docs + "/docs/operations/kubernetes/README.md",
		} {
			if !has(want) {
				t.Errorf("%s: the package has no %s", format, want)
			}
		}
		links := 0
		for _, c := range all {
			if dir := path.Dir(c.Destination); strings.HasPrefix(dir, docs) && !slices.ContainsFunc(all, func(d *files.Content) bool { return d.Type == files.TypeDir && d.Destination == dir }) {
				t.Errorf("%s: the directory of %s is not listed", format, c.Destination)
			}
			if !strings.HasPrefix(c.Destination, docs) || path.Ext(c.Destination) != ".md" {
				continue
			}
			text, err := os.ReadFile(c.Source)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range relativeLink.FindAllStringSubmatch(string(text), -1) {
				links++
				to := path.Join(path.Dir(c.Destination), m[1])
				if !has(to) && !source.MatchString(to) && path.Base(to) != "LICENSE" { // distributions have LICENSE elsewhere
					t.Errorf("%s: %s links to %s, which is not in the package", format, c.Destination, to)
				}
			}
		}
		if links < 100 {
			t.Errorf("%s: found %d links", format, links)
		}
	}
}
