package main

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // the formats register themselves
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// lib is the directory of the programs. codex finds its helpers there.
const lib = "/usr/lib/codex-exec-server"

// docs is the directory of the documents.
const docs = "/usr/share/doc/" + packageName

// rpmLicenses is the directory where distributions with .rpm store the licenses of a package.
const rpmLicenses = "/usr/share/licenses/" + packageName

// packageName is the name of the packages and of the image.
const packageName = "codex-exec-server"

// units are the services of scripts/packages.
var units = []string{"codex-exec-server.service", "codex-executor.service", "codex-rendezvous.service"}

// makePackage makes the .deb or .rpm of a target.
func (r *release) makePackage(t target, format string) error {
	contents, err := r.contents(t, format)
	if err != nil {
		return err
	}
	sources := filepath.Join(r.root, "scripts", "packages")
	info := &nfpm.Info{
		Name: packageName, Arch: t.machine, Platform: t.system, Version: r.version, VersionSchema: "semver",
		Section: "net", Priority: "optional", MTime: r.date, Maintainer: r.maintainer,
		Description: summary + "\n" + description,
		Overridables: nfpm.Overridables{
			Contents:   contents,
			Recommends: []string{"bubblewrap"},
			Scripts: nfpm.Scripts{
				PreInstall: filepath.Join(sources, "preinst"), PostInstall: filepath.Join(sources, "postinst"),
				PreRemove: filepath.Join(sources, "prerm"), PostRemove: filepath.Join(sources, "postrm"),
			},
			// gzip is the fastest compression that every release of Debian can read.
			Deb: nfpm.Deb{Compression: "gzip"},
			RPM: nfpm.RPM{BuildHost: "localhost", Summary: summary, Group: "Applications/System"},
		},
	}
	if format == "rpm" {
		// Debian packages have both in files.
		info.License, info.Description = "Apache-2.0", description
		if info.Changelog, err = r.rpmChangelog(); err != nil {
			return err
		}
	}
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	return r.create(packager.ConventionalFileName(info), func(w io.Writer) error { return packager.Package(info, w) })
}

// summary and description describe the program in packages.
const (
	summary     = "Runs commands for a coding agent on another machine"
	description = `A server that starts and controls processes and does file work for a coding
agent, in a sandbox if the agent asks for it; a client for the command line;
and a rendezvous service, through which agents reach servers behind a
firewall. The server replaces the executor of OpenAI's Codex CLI.`
)

// rpmChangelog writes the list of changes in the format that nfpm reads, and returns its path.
func (r *release) rpmChangelog() (string, error) {
	return r.write("changelog.yaml", fmt.Appendf(nil, "- semver: %s\n  date: %s\n  packager: %s\n  changes:\n    - note: CHANGELOG.md says what has changed.\n",
		r.version, r.date.Format(time.RFC3339), strconv.Quote(r.maintainer)))
}

// contents are the files of a package.
func (r *release) contents(t target, format string) (files.Contents, error) {
	var all files.Contents
	add := func(kind, from, to string, mode os.FileMode) {
		all = append(all, &files.Content{Source: from, Destination: to, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.date}})
	}
	documents, err := r.documents(t)
	if err != nil {
		return nil, err
	}
	// No other package has these directories. rpm removes only directories that are listed.
	directories := []string{lib, docs}
	if format == "rpm" {
		directories = append(directories, rpmLicenses)
	}
	for _, f := range documents {
		for dir := path.Dir(f.name); strings.HasPrefix(f.name, "docs/") && dir != "."; dir = path.Dir(dir) {
			directories = append(directories, docs+"/"+dir)
		}
	}
	slices.Sort(directories)
	for _, dir := range slices.Compact(directories) {
		add(files.TypeDir, "", dir, 0o755)
	}
	for _, program := range t.programs() {
		add(files.TypeFile, r.bin(t, program), lib+"/"+program, 0o755)
	}
	all = append(all, &files.Content{Source: "../lib/codex-exec-server/codex", Destination: "/usr/bin/codex", Type: files.TypeSymlink,
		FileInfo: &files.ContentFileInfo{MTime: r.date}})
	sources := filepath.Join(r.root, "scripts", "packages")
	for _, unit := range units {
		add(files.TypeFile, filepath.Join(sources, unit), "/usr/lib/systemd/system/"+unit, 0o644)
	}
	// The script of the installation copies the profile to where AppArmor reads profiles, if it can read this one.
	add(files.TypeFile, filepath.Join(sources, "apparmor"), lib+"/apparmor", 0o644)
	add(files.TypeFile, filepath.Join(sources, "sysusers.conf"), "/usr/lib/sysusers.d/codex-exec-server.conf", 0o644)
	add(files.TypeFile, filepath.Join(sources, "tmpfiles.conf"), "/usr/lib/tmpfiles.d/codex-exec-server.conf", 0o644)
	for _, f := range documents {
		kind, from, to, err := r.place(f, format)
		if err != nil {
			return nil, err
		}
		if to != "" {
			add(kind, from, to, 0o644)
		}
	}
	if format == "deb" {
		extra, err := r.debianFiles()
		if err != nil {
			return nil, err
		}
		for _, f := range extra {
			add(files.TypeFile, f.from, f.name, f.mode)
		}
	}
	return all, nil
}

// place returns a document's type, its source file and its path in a package. to is empty if the
// package does not contain the document.
func (r *release) place(f file, format string) (kind, from, to string, err error) {
	document := files.TypeFile
	if format == "rpm" {
		document = files.TypeRPMDoc
	}
	switch dir, name := filepath.Split(f.name); {
	case dir == "man/":
		from, err = r.gzipFile(name+".gz", f.from)
		return document, from, "/usr/share/man/man" + strings.TrimPrefix(filepath.Ext(name), ".") + "/" + name + ".gz", err
	case name == "codex.bash":
		return files.TypeFile, f.from, "/usr/share/bash-completion/completions/codex", nil
	case name == "codex.zsh" && format == "rpm":
		return files.TypeFile, f.from, "/usr/share/zsh/site-functions/_codex", nil
	case name == "codex.zsh":
		return files.TypeFile, f.from, "/usr/share/zsh/vendor-completions/_codex", nil
	case name == "codex.fish":
		return files.TypeFile, f.from, "/usr/share/fish/vendor_completions.d/codex.fish", nil
	case name == "LICENSE" && format == "deb":
		return "", "", "", nil // "copyright" leads to Debian's own copy
	case format == "rpm" && (name == "LICENSE" || name == licensesName):
		return files.TypeRPMLicense, f.from, rpmLicenses + "/" + name, nil
	default:
		return document, f.from, docs + "/" + f.name, nil
	}
}
