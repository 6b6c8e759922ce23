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

// licensesName is the file with the licenses of third-party code in the programs. The licenses
// require that they are distributed with the programs.
const licensesName = "THIRD-PARTY-LICENSES"

// licenseFile matches the names of license files in modules.
var licenseFile = regexp.MustCompile(`^(?i)(LICEN[CS]E|COPYING|NOTICE|PATENTS)([.-].*)?$`)

// linked returns the modules that the compiler has recorded in the programs of a target, except the
// modules of this repository, and the version of Go.
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

// licenses writes the licenses of the code that a target's programs link: Go's license and the
// license of each module. A module without a license is an error.
func (r *release) licenses(t target) (file, error) {
	modules, toolchain, err := r.linked(t)
	if err != nil {
		return file{}, err
	}
	var b bytes.Buffer
	b.WriteString("The programs of codex-exec-server contain code of others. These are its licenses.\n")
	if err := appendLicenses(&b, "Go "+strings.TrimPrefix(toolchain, "go"), r.goRoot); err != nil {
		return file{}, err
	}
	for _, path := range sorted(modules) {
		version := modules[path].Version
		dir, err := module.EscapePath(path)
		if err != nil {
			return file{}, err
		}
		if err := appendLicenses(&b, path+" "+version, filepath.Join(r.modules, dir+"@"+version)); err != nil {
			return file{}, err
		}
	}
	to, err := r.write(t.String()+"-"+licensesName, b.Bytes())
	return file{licensesName, to, 0o644}, err
}

// appendLicenses appends the license files of a directory.
func appendLicenses(b *bytes.Buffer, name, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("license of %s: %w", name, err)
	}
	found := false
	for _, e := range entries {
		if !e.Type().IsRegular() || !licenseFile.MatchString(e.Name()) {
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

// write makes a file for archives and packages, and returns its path.
func (r *release) write(name string, content []byte) (string, error) {
	dir := filepath.Join(r.built, "made")
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	path := filepath.Join(dir, name)
	return path, os.WriteFile(path, content, 0o644)
}
