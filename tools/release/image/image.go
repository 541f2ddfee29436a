// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package image writes container images as OCI layouts. It needs neither a daemon nor a base image.
package image

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/culprit-project/culprit/tools/release/archive"
)

// user is nobody's in particular, and not root.
const user = "65532:65532"

// Image is what an image holds for one architecture.
type Image struct {
	Arch       string
	Layers     [][]archive.Entry // What changes least comes first.
	Entrypoint []string
	Labels     map[string]string
}

// accounts are for programs that look up who they are.
var accounts = []archive.Entry{
	{Name: "etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/:/sbin/nologin\nculprit:x:65532:65532:culprit:/:/sbin/nologin\n")},
	{Name: "etc/group", Mode: 0o644, Data: []byte("root:x:0:\nculprit:x:65532:\n")},
	{Name: "tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
}

// Write writes one image for all its architectures as a tar of an OCI layout, under the name that clients import it by.
func Write(to, name string, images []Image, at time.Time) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, i := range images {
		built, err := i.build(at)
		if err != nil {
			return fmt.Errorf("building %s for %s: %w", name, i.Arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: built, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: i.Arch}},
		})
	}
	dir, err := os.MkdirTemp("", "culprit-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("writing the layout of %s: %w", name, err)
	}
	names := map[string]string{"org.opencontainers.image.ref.name": name, "io.containerd.image.name": name}
	if err := l.AppendIndex(index, layout.WithAnnotations(names)); err != nil {
		return fmt.Errorf("writing the layout of %s: %w", name, err)
	}
	entries, err := archive.Folder("", dir)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Clean(to))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := archive.Tar(f, entries, at); err != nil {
		return err
	}
	return f.Close()
}

func (i Image) build(at time.Time) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, entries := range append([][]archive.Entry{accounts}, i.Layers...) {
		var data bytes.Buffer
		if err := archive.Tar(&data, entries, at); err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data.Bytes())), nil },
			tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		if img, err = mutate.Append(img, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: at}}}); err != nil {
			return nil, err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", i.Arch, v1.Time{Time: at}
	config.Config = v1.Config{User: user, Entrypoint: i.Entrypoint, Labels: i.Labels}
	return mutate.ConfigFile(img, config)
}
