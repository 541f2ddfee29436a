// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Media types of charts in registries, by Helm's HIP-0006.
const (
	chartConfig  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartContent types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// Chart pushes a packaged chart to a registry, where helm finds it at oci://REGISTRY/NAME.
func Chart(ctx context.Context, registry, file, chart, version string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	image, err := newArtifact(content, chart, version)
	if err != nil {
		return err
	}
	whole, err := partial.CompressedToImage(image)
	if err != nil {
		return err
	}
	to, err := name.ParseReference(registry + "/" + chart + ":" + version)
	if err != nil {
		return err
	}
	if err := remote.Write(to, whole, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("pushing the chart to %s: %w", to, err)
	}
	fmt.Fprintln(os.Stderr, "release: pushed", to)
	return nil
}

// artifact is a chart as registries keep it: one layer, and what Helm shows of it beside.
type artifact struct {
	config, manifest []byte
	layer            v1.Layer
}

func newArtifact(content []byte, chart, version string) (*artifact, error) {
	a := &artifact{layer: static.NewLayer(content, chartContent)}
	var err error
	if a.config, err = json.Marshal(map[string]string{"apiVersion": "v2", "name": chart, "version": version, "appVersion": version, "type": "application"}); err != nil {
		return nil, err
	}
	hash, size, err := v1.SHA256(bytes.NewReader(a.config))
	if err != nil {
		return nil, err
	}
	layer, err := partial.Descriptor(a.layer)
	if err != nil {
		return nil, err
	}
	a.manifest, err = json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: v1.Descriptor{MediaType: chartConfig, Size: size, Digest: hash}, Layers: []v1.Descriptor{*layer},
	})
	return a, err
}

func (a *artifact) RawConfigFile() ([]byte, error)      { return a.config, nil }
func (a *artifact) RawManifest() ([]byte, error)        { return a.manifest, nil }
func (a *artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }
func (a *artifact) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	if own, err := a.layer.Digest(); err != nil || own != h {
		return nil, errors.Join(fmt.Errorf("the chart has no layer %s", h), err)
	}
	return a.layer, nil
}
