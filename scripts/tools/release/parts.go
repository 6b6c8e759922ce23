package main

import (
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// parts writes the list of a target's components in the CycloneDX format: Go, and each module that
// the compiler has recorded in a program.
func (r *release) parts(t target) error {
	modules, toolchain, err := r.linked(t)
	if err != nil {
		return err
	}
	bom := cyclonedx.NewBOM()
	bom.SerialNumber = ""
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: r.date.Format(time.RFC3339),
		Component: &cyclonedx.Component{Type: cyclonedx.ComponentTypeApplication, Name: packageName, Version: r.version,
			BOMRef: packageName, Description: "for " + t.String()},
	}
	components := []cyclonedx.Component{{
		Type: cyclonedx.ComponentTypeLibrary, Name: "std", Version: strings.TrimPrefix(toolchain, "go"),
		BOMRef: "std", PackageURL: "pkg:golang/std@" + strings.TrimPrefix(toolchain, "go"),
	}}
	for _, path := range sorted(modules) {
		m := modules[path]
		components = append(components, cyclonedx.Component{
			Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: m.Version,
			BOMRef: path + "@" + m.Version, PackageURL: "pkg:golang/" + path + "@" + m.Version,
		})
	}
	bom.Components = &components
	return r.create(packageName+"-"+r.version+"-"+t.String()+".cdx.json", func(w io.Writer) error {
		return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	})
}

func sorted(modules map[string]*debug.Module) []string {
	return slices.Sorted(maps.Keys(modules))
}
