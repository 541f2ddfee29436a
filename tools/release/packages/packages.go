// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package packages writes deb and rpm files from nfpm's descriptions.
package packages

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // The two formats that are written.
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// Formats are those of the packages.
var Formats = []string{"deb", "rpm"}

// Write writes the package that the file description tells of, in a format, into the folder to. Its scripts lie beside
// it; its other variables are those given.
func Write(description, format, to string, variables map[string]string, at time.Time) (err error) {
	config, err := nfpm.ParseFileWithEnvMapping(description, func(name string) string { return variables[name] })
	if err != nil {
		return fmt.Errorf("reading %s: %w", description, err)
	}
	info, err := config.Get(format)
	if err != nil {
		return fmt.Errorf("reading %s: %w", description, err)
	}
	info.MTime = at
	for _, script := range []*string{&info.Scripts.PreInstall, &info.Scripts.PostInstall, &info.Scripts.PreRemove, &info.Scripts.PostRemove} {
		if *script != "" {
			*script = filepath.Join(filepath.Dir(description), *script)
		}
	}
	// The name of the machine that builds would be in the package.
	info.RPM.BuildHost = "culprit"
	info = nfpm.WithDefaults(info)
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(to, packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, f.Close()) }()
	if err := packager.Package(info, f); err != nil {
		return fmt.Errorf("writing %s: %w", f.Name(), err)
	}
	return nil
}
