// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/culprit-project/culprit/tools/release/archive"
	"github.com/culprit-project/culprit/tools/release/image"
)

// TestRegistry pushes an image for two architectures and a chart to a registry, and reads both back.
func TestRegistry(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	target := strings.TrimPrefix(server.URL, "http://") + "/team"
	dir := t.TempDir()
	file := filepath.Join(dir, "a.oci.tar")
	var images []image.Image
	for _, arch := range []string{"amd64", "arm64"} {
		images = append(images, image.Image{Arch: arch, Layers: [][]archive.Entry{{{Name: "usr/bin/a", Mode: 0o755, Data: []byte(arch)}}}})
	}
	if err := image.Write(file, "ghcr.io/culprit-project/culprit-a:1.2", images, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	if err := Images(t.Context(), target, []string{file}); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(target + "/culprit-a:1.2")
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(ref)
	if err != nil {
		t.Fatal(err)
	}
	if manifest, err := index.IndexManifest(); err != nil || len(manifest.Manifests) != 2 || manifest.Manifests[1].Platform.Architecture != "arm64" {
		t.Errorf("%+v, %v", manifest, err)
	}

	chart := filepath.Join(dir, "culprit-1.2.tgz")
	if err := os.WriteFile(chart, []byte("chart"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Chart(t.Context(), target, chart, "culprit", "1.2"); err != nil {
		t.Fatal(err)
	}
	if ref, err = name.ParseReference(target + "/culprit:1.2"); err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := pulled.Manifest()
	if err != nil || manifest.Config.MediaType != chartConfig || len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != chartContent {
		t.Fatalf("%+v, %v", manifest, err)
	}
	layers, err := pulled.Layers()
	if err != nil {
		t.Fatal(err)
	}
	content, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(content); err != nil || string(got) != "chart" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestNodes has the command of each kind of cluster called for each file.
func TestNodes(t *testing.T) {
	bin := t.TempDir()
	for _, program := range []string{"kind", "k3s", "ctr"} {
		if err := os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\necho \"$(basename \"$0\") $*\" >> \"$CALLS\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for target, want := range map[string]string{
		"kind":       "kind load image-archive a\nkind load image-archive b\n",
		"k3s":        "k3s ctr images import a\nk3s ctr images import b\n",
		"containerd": "ctr --namespace k8s.io images import a\nctr --namespace k8s.io images import b\n",
	} {
		calls := filepath.Join(t.TempDir(), "calls")
		t.Setenv("CALLS", calls)
		if err := Images(t.Context(), target, []string{"a", "b"}); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(calls); err != nil || string(got) != want || IsRegistry(target) {
			t.Errorf("%s: %q, %v", target, got, err)
		}
	}
}
