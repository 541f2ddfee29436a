// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package sbom lists what shipped programs are made of, as CycloneDX. Go programs tell it themselves.
package sbom

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// Subject is what the list is of.
type Subject struct {
	Name, Version string
	Date          time.Time
	Programs      []string // Paths of Go programs.
	Libraries     []string // Paths of libraries in C, which contain nothing of others.
	Debian        []Debian // Packages in images.
}

// Debian is a package of Debian.
type Debian struct{ Name, Version, Arch, SHA256 string }

// Write gives the list as JSON.
func Write(s Subject) ([]byte, error) {
	modules := map[string]cyclonedx.Component{}
	components := []cyclonedx.Component{}
	for _, name := range s.Programs {
		info, err := buildinfo.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading the modules of %s: %w", name, err)
		}
		components = append(components, own(s, name, cyclonedx.ComponentTypeApplication))
		add(modules, "std", info.GoVersion)
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			add(modules, m.Path, m.Version)
		}
	}
	for _, name := range s.Libraries {
		components = append(components, own(s, name, cyclonedx.ComponentTypeLibrary))
	}
	for _, p := range s.Debian {
		components = append(components, cyclonedx.Component{
			Type: cyclonedx.ComponentTypeLibrary, Name: p.Name, Version: p.Version,
			PackageURL: fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s", p.Name, url.QueryEscape(p.Version), p.Arch),
			BOMRef:     "debian/" + p.Name,
			Hashes:     &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: p.SHA256}},
		})
	}
	for _, c := range modules {
		components = append(components, c)
	}
	slices.SortFunc(components, func(a, b cyclonedx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: s.Date.UTC().Format(time.RFC3339),
		Component: &cyclonedx.Component{Type: cyclonedx.ComponentTypeApplication, Name: s.Name, Version: s.Version, BOMRef: s.Name},
	}
	bom.Components = &components
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("writing the SBOM: %w", err)
	}
	return out.Bytes(), nil
}

func own(s Subject, name string, kind cyclonedx.ComponentType) cyclonedx.Component {
	base := filepath.Base(name)
	return cyclonedx.Component{
		Type: kind, Name: base, Version: s.Version, BOMRef: "culprit/" + base,
		Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
	}
}

func add(modules map[string]cyclonedx.Component, path, version string) {
	modules[path+"@"+version] = cyclonedx.Component{
		Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version,
		PackageURL: "pkg:golang/" + path + "@" + url.QueryEscape(version), BOMRef: "go/" + path + "@" + version,
	}
}
