package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// testRelease returns a release whose program is the running test, which also links third-party
// modules.
func testRelease(t *testing.T) (*release, target) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	built, out := t.TempDir(), t.TempDir()
	only := target{"darwin", "arm64"} // has one program
	if err := os.MkdirAll(filepath.Join(built, "bin", only.String()), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(built, "bin", only.String(), "codex")); err != nil {
		t.Fatal(err)
	}
	return &release{
		version: "1.2.3", date: time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC), root: "../../..", built: built, out: out,
		modules: goEnv(t, "GOMODCACHE"), goRoot: goEnv(t, "GOROOT"), targets: []target{only}, maintainer: "Jo <jo@example.org>",
	}, only
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// moduleDir returns the directory of a module's source.
func moduleDir(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestParts validates a list of components with the schema of CycloneDX, which knows the identifiers of licenses. It
// also checks that a list without a version is not valid.
func TestParts(t *testing.T) {
	t.Parallel()
	r, only := testRelease(t)
	if err := r.parts(only); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.out, "codex-exec-server-1.2.3-darwin-arm64.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	schema := bomSchema(t)
	if err := validate(t, schema, text); err != nil {
		t.Error(err)
	}
	if validate(t, schema, bytes.Replace(text, []byte(`"specVersion"`), []byte(`"spec"`), 1)) == nil {
		t.Error("a list without specVersion passes the schema")
	}
	bom := new(cyclonedx.BOM)
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(text), cyclonedx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(r.bin(only, "codex"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(program)
	got := map[string]string{}
	for _, c := range slices.Concat([]cyclonedx.Component{*bom.Metadata.Component}, *bom.Metadata.Component.Components, *bom.Components) {
		if c.Licenses != nil {
			got[c.Name] = (*c.Licenses)[0].License.ID
		}
		if c.Hashes != nil {
			got[c.Name] += " " + (*c.Hashes)[0].Value
		}
	}
	wanted := map[string]string{"codex-exec-server": "Apache-2.0", "codex": " " + hex.EncodeToString(sum[:]), "std": "BSD-3-Clause"}
	for path, id := range map[string]string{"github.com/goreleaser/nfpm/v2": "MIT", "golang.org/x/mod": "BSD-3-Clause"} {
		wanted[path] = id + " " + goSum(t, path)
	}
	for name, want := range wanted {
		if got[name] != want {
			t.Errorf("%s: got license and hash %q, want %q", name, got[name], want)
		}
	}
}

// goSum returns the sum of a module in go.sum, in hexadecimal digits.
func goSum(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(sums), path+" "+strings.TrimSpace(string(out))+" h1:")
	line, _, _ := strings.Cut(after, "\n")
	sum, err := base64.StdEncoding.DecodeString(line)
	if err != nil || len(sum) == 0 {
		t.Fatalf("go.sum has %q for %s, %v", line, path, err)
	}
	return hex.EncodeToString(sum)
}

// TestUnknownLicense: a license that is not recognized is an error, and a notice is no license.
func TestUnknownLicense(t *testing.T) {
	t.Parallel()
	apache, err := os.ReadFile("../../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"LICENSE": []byte("You may use this on Sundays.\n"), "NOTICE": apache} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if ids, err := licenseIDs("example.org/m", dir); err == nil || !strings.Contains(err.Error(), "example.org/m") {
			t.Errorf(`%s: got %q, %v, want an error with "example.org/m"`, name, ids, err)
		}
	}
}

// bomSchema compiles the schema in the module for the format, without the part about cryptography,
// which the module lacks and the lists do not use.
func bomSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	const base = "http://cyclonedx.org/schema/"
	dir := filepath.Join(moduleDir(t, "github.com/CycloneDX/cyclonedx-go"), "schema")
	compiler := jsonschema.NewCompiler()
	for name, from := range map[string]string{
		"bom-1.7.schema.json": "bom-1.7.schema.json", "spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		text, err := os.ReadFile(filepath.Join(dir, from))
		if err != nil {
			t.Fatal(err)
		}
		content, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource(base+name, content); err != nil {
			t.Fatal(err)
		}
	}
	definitions := map[string]any{"algorithmFamiliesEnum": false, "ellipticCurvesEnum": false}
	if err := compiler.AddResource(base+"cryptography-defs.schema.json", map[string]any{"definitions": definitions}); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile(base + "bom-1.7.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func validate(t *testing.T, schema *jsonschema.Schema, text []byte) error {
	t.Helper()
	content, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(content)
}

// TestLicenses: the file has a license of Go and of each linked module.
func TestLicenses(t *testing.T) {
	t.Parallel()
	r, only := testRelease(t)
	f, err := r.licenses(only)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(f.from)
	if err != nil {
		t.Fatal(err)
	}
	modules, toolchain, err := r.linked(only)
	if err != nil || len(modules) < 5 {
		t.Fatalf("%d modules, %v", len(modules), err)
	}
	wanted := []string{"Go " + strings.TrimPrefix(toolchain, "go")}
	for path, m := range modules {
		wanted = append(wanted, path+" "+m.Version)
	}
	for _, want := range wanted {
		if !strings.Contains(string(text), "\n"+want+": LICEN") && !strings.Contains(string(text), "\n"+want+": COPYING") {
			t.Errorf("there is no license of %s", want)
		}
	}
}

// TestNoLicense: a module without a license is an error that names it.
func TestNoLicense(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("free"), 0o600); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, d := range []string{dir, filepath.Join(dir, "missing")} {
		if err := appendLicenses(&b, "example.org/m v1.0.0", d); err == nil || !strings.Contains(err.Error(), "example.org/m") {
			t.Errorf(`%s: got error %v, want an error with "example.org/m"`, d, err)
		}
	}
}
