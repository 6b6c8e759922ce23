package main

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"

	"golang.org/x/mod/module"
)

// licencesName is the file with the licences of others' code that is linked into the
// programs. They demand that it goes with them.
const licencesName = "THIRD-PARTY-LICENSES"

// licenceFile matches the names of the files that modules have for it.
var licenceFile = regexp.MustCompile(`^(?i)(LICEN[CS]E|COPYING|NOTICE|PATENTS)([.-].*)?$`)

// linked returns the modules that the compiler has written into the programs of a target,
// without those of this repository, and the version of Go.
func (r *release) linked(t target) (modules map[string]*debug.Module, toolchain string, err error) {
	modules = map[string]*debug.Module{}
	for _, program := range t.programs() {
		info, err := buildinfo.ReadFile(r.bin(t, program))
		if err != nil {
			return nil, "", err
		}
		toolchain = info.GoVersion
		for _, m := range info.Deps {
			if !strings.HasPrefix(m.Path, "codex.internal/") {
				modules[m.Path] = m
			}
		}
	}
	return modules, toolchain, nil
}

// licences writes the licences of what a target's programs link: those of Go, and of each
// module. A module without one is an error.
func (r *release) licences(t target) (file, error) {
	modules, toolchain, err := r.linked(t)
	if err != nil {
		return file{}, err
	}
	var b bytes.Buffer
	b.WriteString("The programs of codex-exec-server contain code of others. These are its licenses.\n")
	if err := appendLicences(&b, "Go "+strings.TrimPrefix(toolchain, "go"), r.goRoot); err != nil {
		return file{}, err
	}
	for _, path := range sorted(modules) {
		version := modules[path].Version
		dir, err := module.EscapePath(path)
		if err != nil {
			return file{}, err
		}
		if err := appendLicences(&b, path+" "+version, filepath.Join(r.modules, dir+"@"+version)); err != nil {
			return file{}, err
		}
	}
	to, err := r.write(t.String()+"-"+licencesName, b.Bytes())
	return file{licencesName, to, 0o644}, err
}

// appendLicences appends the licence files of a directory.
func appendLicences(b *bytes.Buffer, name, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("license of %s: %w", name, err)
	}
	found := false
	for _, e := range entries {
		if !e.Type().IsRegular() || !licenceFile.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return fmt.Errorf("license of %s: %w", name, err)
		}
		found = true
		fmt.Fprintf(b, "\n%s\n%s: %s\n\n%s\n", strings.Repeat("=", 72), name, e.Name(), bytes.TrimSpace(text))
	}
	if !found {
		return fmt.Errorf("license of %s: %s: %w", name, dir, fs.ErrNotExist)
	}
	return nil
}

// write makes a file that goes into archives and packages, and returns its path.
func (r *release) write(name string, content []byte) (string, error) {
	dir := filepath.Join(r.built, "made")
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	path := filepath.Join(dir, name)
	return path, os.WriteFile(path, content, 0o644)
}
