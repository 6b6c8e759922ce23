package main

import (
	"io"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // the formats register themselves
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// lib is where the programs are: the helpers are found beside codex.
const lib = "/usr/lib/codex-exec-server"

// packageName is the name of the packages and of the image.
const packageName = "codex-exec-server"

// units are the services of scripts/packages.
var units = []string{"codex-exec-server.service", "codex-executor.service", "codex-rendezvous.service"}

// makePackage makes the .deb or .rpm of a target.
func (r *release) makePackage(t target, format string) error {
	contents, err := r.contents(t)
	if err != nil {
		return err
	}
	sources := filepath.Join(r.root, "scripts", "packages")
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: packageName, Arch: t.machine, Platform: t.system, Version: r.version, VersionSchema: "semver",
		Section: "net", Priority: "optional", License: "Apache-2.0", MTime: r.date,
		Maintainer:  "The maintainers of codex-exec-server <root@localhost>",
		Description: "Runs commands and does file work for a coding agent on another machine",
		Overridables: nfpm.Overridables{
			Contents:   contents,
			Recommends: []string{"bubblewrap"},
			Scripts: nfpm.Scripts{
				PreInstall: filepath.Join(sources, "preinst"), PostInstall: filepath.Join(sources, "postinst"),
				PreRemove: filepath.Join(sources, "prerm"), PostRemove: filepath.Join(sources, "postrm"),
			},
			// The fastest that every release of Debian reads.
			Deb: nfpm.Deb{Compression: "gzip"},
			RPM: nfpm.RPM{BuildHost: "localhost"},
		},
	})
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	return r.create(packager.ConventionalFileName(info), func(w io.Writer) error { return packager.Package(info, w) })
}

// contents are the files of a package.
func (r *release) contents(t target) (files.Contents, error) {
	var all files.Contents
	add := func(from, to string, mode os.FileMode) {
		all = append(all, &files.Content{Source: from, Destination: to, Type: files.TypeFile,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.date}})
	}
	for _, program := range t.programs() {
		add(r.bin(t, program), lib+"/"+program, 0o755)
	}
	all = append(all, &files.Content{Source: "../lib/codex-exec-server/codex", Destination: "/usr/bin/codex", Type: files.TypeSymlink,
		FileInfo: &files.ContentFileInfo{MTime: r.date}})
	sources := filepath.Join(r.root, "scripts", "packages")
	for _, unit := range units {
		add(filepath.Join(sources, unit), "/usr/lib/systemd/system/"+unit, 0o644)
	}
	add(filepath.Join(sources, "sysusers.conf"), "/usr/lib/sysusers.d/codex-exec-server.conf", 0o644)
	add(filepath.Join(sources, "tmpfiles.conf"), "/usr/lib/tmpfiles.d/codex-exec-server.conf", 0o644)
	documents, err := r.documents()
	if err != nil {
		return nil, err
	}
	for _, f := range documents {
		switch dir, name := filepath.Split(f.name); {
		case dir == "man/":
			add(f.from, "/usr/share/man/man1/"+name, 0o644)
		case name == "codex.bash":
			add(f.from, "/usr/share/bash-completion/completions/codex", 0o644)
		case name == "codex.zsh":
			add(f.from, "/usr/share/zsh/vendor-completions/_codex", 0o644)
		case name == "codex.fish":
			add(f.from, "/usr/share/fish/vendor_completions.d/codex.fish", 0o644)
		default:
			add(f.from, "/usr/share/doc/codex-exec-server/"+name, 0o644)
		}
	}
	return all, nil
}
