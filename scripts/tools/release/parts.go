package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// parts writes the list of a target's components in the CycloneDX format, with their licenses and
// hashes: the programs, Go, and each module that the compiler has recorded in a program.
func (r *release) parts(t target) error {
	modules, toolchain, err := r.linked(t)
	if err != nil {
		return err
	}
	programs, err := r.programParts(t)
	if err != nil {
		return err
	}
	bom := cyclonedx.NewBOM()
	bom.SerialNumber = ""
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: r.date.Format(time.RFC3339),
		Component: &cyclonedx.Component{Type: cyclonedx.ComponentTypeApplication, Name: packageName, Version: r.version,
			BOMRef: packageName, PackageURL: "pkg:generic/" + packageName + "@" + r.version, Description: "for " + t.String(),
			Licenses: licensesOf("Apache-2.0"), Components: programs},
	}
	ids, err := licenseIDs("Go", r.goRoot)
	if err != nil {
		return err
	}
	components := []cyclonedx.Component{{
		Type: cyclonedx.ComponentTypeLibrary, Name: "std", Version: strings.TrimPrefix(toolchain, "go"),
		BOMRef: "std", PackageURL: "pkg:golang/std@" + strings.TrimPrefix(toolchain, "go"), Licenses: licensesOf(ids...),
	}}
	for _, path := range sorted(modules) {
		c, err := r.modulePart(modules[path])
		if err != nil {
			return err
		}
		components = append(components, c)
	}
	bom.Components = &components
	return r.create(packageName+"-"+r.version+"-"+t.String()+".cdx.json", func(w io.Writer) error {
		return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	})
}

// programParts describes the programs of a target.
func (r *release) programParts(t target) (*[]cyclonedx.Component, error) {
	var all []cyclonedx.Component
	for _, program := range t.programs() {
		content, err := os.ReadFile(r.bin(t, program))
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(content)
		all = append(all, cyclonedx.Component{Type: cyclonedx.ComponentTypeFile, Name: program, Version: r.version, BOMRef: program, Hashes: hashOf(sum[:])})
	}
	return &all, nil
}

// modulePart describes a module. Its hash is the one in go.sum: the SHA-256 of the list of its files with their
// SHA-256, as cyclonedx-gomod writes it.
func (r *release) modulePart(m *debug.Module) (c cyclonedx.Component, err error) {
	dir, err := r.moduleDir(m)
	if err != nil {
		return c, err
	}
	ids, err := licenseIDs(m.Path, dir)
	if err != nil {
		return c, err
	}
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
	if err != nil || len(sum) != sha256.Size {
		return c, fmt.Errorf("%s has the sum %q in the program, which is no SHA-256 of go.sum: %w", m.Path, m.Sum, err)
	}
	return cyclonedx.Component{
		Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, BOMRef: m.Path + "@" + m.Version,
		PackageURL: "pkg:golang/" + m.Path + "@" + m.Version, Licenses: licensesOf(ids...), Hashes: hashOf(sum),
	}, nil
}

func licensesOf(ids ...string) *cyclonedx.Licenses {
	var all cyclonedx.Licenses
	for _, id := range ids {
		all = append(all, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: id}})
	}
	return &all
}

func hashOf(sum []byte) *[]cyclonedx.Hash {
	return &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
}

func sorted(modules map[string]*debug.Module) []string {
	return slices.Sorted(maps.Keys(modules))
}
