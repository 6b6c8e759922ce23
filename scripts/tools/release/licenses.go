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
	"slices"
	"strings"

	"github.com/google/licensecheck"
	"golang.org/x/mod/module"
)

// licensesName is the file with the licenses of third-party code in the programs. The licenses
// require that they are distributed with the programs.
const licensesName = "THIRD-PARTY-LICENSES"

// licenseFile matches the names of license files in modules.
var licenseFile = regexp.MustCompile(`^(?i)(LICEN[CS]E|COPYING|NOTICE|PATENTS)([.-].*)?$`)

// grantFile matches those of them that are no licenses.
var grantFile = regexp.MustCompile(`^(?i)(NOTICE|PATENTS)`)

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
		m := modules[path]
		dir, err := r.moduleDir(m)
		if err != nil {
			return file{}, err
		}
		if err := appendLicenses(&b, path+" "+m.Version, dir); err != nil {
			return file{}, err
		}
	}
	to, err := r.write(t.String()+"-"+licensesName, b.Bytes())
	return file{licensesName, to, 0o644}, err
}

// moduleDir returns the directory of a module in the module cache.
func (r *release) moduleDir(m *debug.Module) (string, error) {
	dir, err := module.EscapePath(m.Path)
	return filepath.Join(r.modules, dir+"@"+m.Version), err
}

// appendLicenses appends the license files of a directory.
func appendLicenses(b *bytes.Buffer, name, dir string) error {
	return eachLicense(name, dir, func(file string, text []byte) {
		fmt.Fprintf(b, "\n%s\n%s: %s\n\n%s\n", strings.Repeat("=", 72), name, file, bytes.TrimSpace(text))
	})
}

// licenseIDs returns the SPDX identifiers of the licenses in a directory. Notices and grants of patents
// have none. A directory in which no license is recognized is an error.
func licenseIDs(name, dir string) (ids []string, err error) {
	err = eachLicense(name, dir, func(file string, text []byte) {
		if grantFile.MatchString(file) {
			return
		}
		for _, m := range licensecheck.Scan(text).Match {
			if !slices.Contains(ids, m.ID) {
				ids = append(ids, m.ID)
			}
		}
	})
	if err == nil && len(ids) == 0 {
		err = fmt.Errorf("license of %s: no license in %s is recognized", name, dir)
	}
	return ids, err
}

// eachLicense calls do with each license file of a directory. A directory without one is an error.
func eachLicense(name, dir string, do func(file string, text []byte)) error {
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
		do(e.Name(), text)
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
