package main

import (
	"bytes"
	"io"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// imageUser is an ordinary user. It is a number, because the image has no user names.
const imageUser = "65532:65532"

// image creates an OCI layout with an image for each kind of Linux machine. An image is made from
// scratch and contains the programs and their licenses. The layout has one entry, the index of all
// images, which is named by the version: skopeo and podman cannot copy from a layout with several
// unnamed entries.
func (r *release) image() error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, t := range r.targets {
		if t.system != "linux" {
			continue
		}
		img, err := r.imageOf(t)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: t.system, Architecture: t.machine},
		}})
	}
	top := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add: index, Descriptor: v1.Descriptor{Annotations: map[string]string{"org.opencontainers.image.ref.name": r.version}},
	})
	_, err := layout.Write(filepath.Join(r.out, packageName+"-"+r.version+"-oci"), top)
	return err
}

func (r *release) imageOf(t target) (v1.Image, error) {
	licenses, err := r.licenses(t)
	if err != nil {
		return nil, err
	}
	var contents []file
	for _, program := range t.programs() {
		contents = append(contents, file{"usr/bin/" + program, r.bin(t, program), 0o755})
	}
	doc := "usr/share/doc/" + packageName + "/"
	contents = append(contents, file{doc + "LICENSE", filepath.Join(r.root, "LICENSE"), 0o644}, file{doc + licenses.name, licenses.from, 0o644})
	var content bytes.Buffer
	if err := r.tar(&content, "", contents); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img, mutate.Addendum{Layer: layer, MediaType: types.OCILayer, History: v1.History{
		Created: v1.Time{Time: r.date}, CreatedBy: "scripts/release " + r.version,
	}})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(img, r.imageConfig(t, config.DeepCopy()))
}

// imageConfig adds to a configuration how the image runs: as an ordinary user, and by default
// without arguments, so that it shows the options of the server.
func (r *release) imageConfig(t target, config *v1.ConfigFile) *v1.ConfigFile {
	config.OS, config.Architecture, config.Created = t.system, t.machine, v1.Time{Time: r.date}
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/codex"}, Cmd: []string{"exec-server", "--help"},
		User: imageUser, WorkingDir: "/", Env: []string{"PATH=/usr/bin:/bin"},
		Labels: map[string]string{
			"org.opencontainers.image.title":    packageName,
			"org.opencontainers.image.version":  r.version,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return config
}
