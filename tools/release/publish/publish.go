// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package publish brings images and the chart to where a cluster takes them from: a registry, or the nodes themselves.
package publish

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// refName is the annotation of a layout's index that has an image's name.
const refName = "org.opencontainers.image.ref.name"

// loaders are what brings an image's file to nodes, by the name of the target.
var loaders = map[string][]string{
	"kind":       {"kind", "load", "image-archive"},
	"k3s":        {"k3s", "ctr", "images", "import"},
	"containerd": {"ctr", "--namespace", "k8s.io", "images", "import"},
}

// Images brings the images in files, OCI layouts as tars, to the target: kind, k3s or containerd, or else a registry with a folder in it. Kind
// takes the name of its cluster from KIND_CLUSTER_NAME.
func Images(ctx context.Context, target string, files []string) error {
	for _, file := range files {
		if command, ok := loaders[target]; ok {
			cmd := exec.CommandContext(ctx, command[0], append(command[1:len(command):len(command)], file)...)
			cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("loading %s by %s: %w", filepath.Base(file), strings.Join(command, " "), err)
			}
			continue
		}
		if err := push(ctx, target, file); err != nil {
			return fmt.Errorf("pushing %s to %s: %w", filepath.Base(file), target, err)
		}
	}
	return nil
}

// IsRegistry tells whether a target takes the chart, too.
func IsRegistry(target string) bool { return loaders[target] == nil }

// push copies an image with all its architectures. It logs in as docker does.
func push(ctx context.Context, registry, file string) error {
	dir, err := os.MkdirTemp("", "culprit-push-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := unpack(file, dir); err != nil {
		return err
	}
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return err
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		return err
	}
	for _, m := range manifest.Manifests {
		image, err := top.ImageIndex(m.Digest)
		if err != nil {
			return err
		}
		to, err := name.ParseReference(registry + "/" + path.Base(m.Annotations[refName]))
		if err != nil {
			return err
		}
		if err := remote.WriteIndex(to, image, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, "release: pushed", to)
	}
	return nil
}

// unpack unpacks the files of a tar that this program wrote.
func unpack(file, dir string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if !filepath.IsLocal(h.Name) {
			return fmt.Errorf("%s has the name %q", file, h.Name)
		}
		if err := write(filepath.Join(dir, h.Name), r); err != nil {
			return err
		}
	}
}

func write(to string, from io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, from)
	return errors.Join(err, out.Close())
}
