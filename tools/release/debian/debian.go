// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package debian gives files of Debian's packages, for images: they need a C library and certificates. The packages are pinned by
// their digests.
package debian

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/blakesmith/ar"
	"github.com/ulikunitz/xz"

	"github.com/culprit-project/culprit/tools/release/archive"
)

// Package is a package of Debian 12.
type Package struct {
	Name, Version, Arch, Archive, Pool, SHA256 string
}

// CA has the certificates of public authorities.
var CA = Package{"ca-certificates", "20250419~deb12u2", "all", "debian-security", "updates/main/c/ca-certificates", "b9f76b5271a7ac373fd5e7e1b5b826a71ddd702b42a0d104955ecb1acfffc94b"}

// Libc is the C library, by Go's name of the architecture.
var Libc = map[string]Package{
	"amd64": {"libc6", "2.36-9+deb12u14", "amd64", "debian", "main/g/glibc", "ba4f88f73dbc3ae9055f3c20f4523bfdbaf1ad13ff95e258924f77d20b4fbedf"},
	"arm64": {"libc6", "2.36-9+deb12u14", "arm64", "debian", "main/g/glibc", "01f4330719fd4f65580e16ea5a0527f372fca750e8f588d26deaf09f2d3b1cf4"},
}

// sources are asked in this order; the last keeps what the first no longer has. The archive comes first, then the path in it.
var sources = []string{"http://deb.debian.org/%s/%s", "http://snapshot.debian.org/archive/%s/20261101T000000Z/%s"}

// Mirror has a mirror of deb.debian.org asked before the others.
func Mirror(url string) {
	sources = append([]string{strings.TrimSuffix(url, "/") + "/%s/%s"}, sources...)
}

func (p Package) file() string { return p.Name + "_" + p.Version + "_" + p.Arch + ".deb" }

// Fetch gives the path of the package in the folder cache, into which it is downloaded when it is not there.
func Fetch(ctx context.Context, p Package, cache string) (string, error) {
	name := filepath.Join(cache, p.file())
	if data, err := os.ReadFile(name); err == nil && digest(data) == p.SHA256 {
		return name, nil
	}
	var failed []error
	for _, source := range sources {
		data, err := get(ctx, fmt.Sprintf(source, p.Archive, path.Join("pool", p.Pool, p.file())))
		if err == nil && digest(data) != p.SHA256 {
			err = fmt.Errorf("digest %s, want %s", digest(data), p.SHA256)
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if err := os.MkdirAll(cache, 0o755); err != nil {
			return "", err
		}
		return name, os.WriteFile(name, data, 0o644)
	}
	return "", fmt.Errorf("downloading %s: %w", p.file(), errors.Join(failed...))
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, resp.Status)
	}
	return io.ReadAll(resp.Body)
}

// Files gives the entries of a package's file that keep names, by their path in the package ("usr/share/...").
func Files(name string, keep func(string) bool) ([]archive.Entry, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	outer := ar.NewReader(f)
	for {
		h, err := outer.Next()
		if err != nil {
			return nil, fmt.Errorf("looking for data.tar.xz in %s: %w", name, err)
		}
		if strings.TrimSuffix(strings.TrimSpace(h.Name), "/") != "data.tar.xz" {
			continue
		}
		data, err := xz.NewReader(outer)
		if err != nil {
			return nil, fmt.Errorf("unpacking %s: %w", name, err)
		}
		return entries(tar.NewReader(data), keep)
	}
}

func entries(t *tar.Reader, keep func(string) bool) ([]archive.Entry, error) {
	var out []archive.Entry
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		name := path.Clean(h.Name)
		if h.Typeflag == tar.TypeDir || !keep(name) {
			continue
		}
		var data bytes.Buffer
		if _, err := io.Copy(&data, t); err != nil {
			return nil, fmt.Errorf("unpacking %s: %w", name, err)
		}
		out = append(out, archive.Entry{Name: name, Mode: fs.FileMode(h.Mode).Perm(), Data: data.Bytes(), Link: h.Linkname})
	}
}
