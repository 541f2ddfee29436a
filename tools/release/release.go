// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/culprit-project/culprit/tools/release/archive"
	"github.com/culprit-project/culprit/tools/release/build"
	"github.com/culprit-project/culprit/tools/release/debian"
	"github.com/culprit-project/culprit/tools/release/image"
	"github.com/culprit-project/culprit/tools/release/packages"
	"github.com/culprit-project/culprit/tools/release/provenance"
	"github.com/culprit-project/culprit/tools/release/publish"
	"github.com/culprit-project/culprit/tools/release/sbom"
)

// registry is where images are published.
const registry = "ghcr.io/culprit-project"

// release is a release on its way.
type release struct {
	source          build.Source
	zig, cache, out string // Paths.
	arches          []string
	images          bool   // Only images and the chart.
	to              string // Where they are brought to, in the words of publish.Images; empty: nowhere.
}

func (r *release) run(ctx context.Context) error {
	for _, p := range []*string{&r.source.Root, &r.zig, &r.cache, &r.out} {
		absolute, err := filepath.Abs(*p)
		if err != nil {
			return err
		}
		*p = absolute
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	dist := filepath.Join(r.out, "dist")
	if err := os.MkdirAll(dist, 0o755); err != nil {
		return err
	}
	for _, arch := range r.arches {
		if err := build.All(ctx, r.source, arch, r.zig, r.stage(arch)); err != nil {
			return err
		}
	}
	if err := r.render(ctx); err != nil {
		return err
	}
	if err := r.chart(dist); err != nil {
		return err
	}
	if r.images {
		return errors.Join(r.writeImages(ctx, dist), r.publish(ctx, dist))
	}
	if err := r.manPages(ctx); err != nil {
		return err
	}
	for _, arch := range r.arches {
		for _, step := range []func(arch, dist string) error{r.tarball, r.packages, r.bill} {
			if err := step(arch, dist); err != nil {
				return err
			}
		}
	}
	if err := r.writeImages(ctx, dist); err != nil {
		return err
	}
	return r.sums(ctx, dist)
}

func (r *release) stage(arch string) string { return filepath.Join(r.out, "stage", arch) }

// manPages has the programs for this machine write their manuals, which are the same for all.
func (r *release) manPages(ctx context.Context) error {
	to := filepath.Join(r.out, "stage", "man")
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, p := range build.Programs {
		text, err := exec.CommandContext(ctx, filepath.Join(r.stage(runtime.GOARCH), "bin", p.Name), "--help-man").Output()
		if err != nil {
			return fmt.Errorf("writing the manual of %s: %w", p.Name, err)
		}
		if err := os.WriteFile(filepath.Join(to, p.Name+".1"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// mixin is where the rules, for every scrape interval, and the dashboards are rendered.
func (r *release) mixin() string { return filepath.Join(r.out, "stage", "mixin") }

func (r *release) render(ctx context.Context) error {
	render := exec.CommandContext(ctx, filepath.Join(r.source.Root, "mixin", "generate.sh"), "--into", r.mixin())
	if out, err := render.CombinedOutput(); err != nil {
		return fmt.Errorf("rendering rules and dashboards: %w\n%s", err, out)
	}
	return nil
}

// tarball has everything for one machine, and what is loaded into Prometheus and Grafana.
func (r *release) tarball(arch, dist string) error {
	name := fmt.Sprintf("culprit-%s.linux-%s", r.source.Version, arch)
	var entries []archive.Entry
	for below, from := range map[string]string{
		"bin": filepath.Join(r.stage(arch), "bin"), "lib": filepath.Join(r.stage(arch), "lib"), "man": filepath.Join(r.out, "stage", "man"),
		"rules": filepath.Join(r.mixin(), "rules"), "dashboards": filepath.Join(r.mixin(), "dashboards"), "deploy": filepath.Join(r.source.Root, "deploy"),
	} {
		found, err := archive.Folder(path.Join(name, below), from)
		if err != nil {
			return err
		}
		// Tests of examples and charts are of no use without the repository.
		entries = append(entries, slices.DeleteFunc(found, func(e archive.Entry) bool {
			return strings.HasSuffix(e.Name, ".go") || strings.Contains(e.Name, "/testdata/")
		})...)
	}
	chart, err := r.chartFiles(path.Join(name, "deploy/charts/culprit/files"))
	if err != nil {
		return err
	}
	entries = append(entries, chart...)
	for _, file := range []string{"LICENSE", "THIRD_PARTY_NOTICES", "CHANGELOG.md", "README.md"} {
		e, err := archive.File(path.Join(name, file), filepath.Join(r.source.Root, file), 0o644)
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	return archive.TarGz(filepath.Join(dist, name+".tar.gz"), entries, r.source.Date)
}

// chartFiles are the rules and dashboards in the chart, which are links in the repository.
func (r *release) chartFiles(below string) ([]archive.Entry, error) {
	var entries []archive.Entry
	for _, pattern := range []string{"rules/*.yaml", "rules/sources/*.yaml", "rules/scrape-*/*.yaml", "dashboards/*.json"} {
		found, err := filepath.Glob(filepath.Join(r.mixin(), pattern))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("the mixin rendered no %s", pattern)
		}
		for _, from := range found {
			e, err := archive.File(path.Join(below, filepath.ToSlash(strings.TrimPrefix(from, r.mixin()))), from, 0o644)
			if err != nil {
				return nil, err
			}
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// chart packages the chart with what git links, as helm package does.
func (r *release) chart(dist string) error {
	own, err := archive.Folder("culprit", filepath.Join(r.source.Root, "deploy", "charts", "culprit"))
	if err != nil {
		return err
	}
	own = slices.DeleteFunc(own, func(e archive.Entry) bool {
		return strings.HasPrefix(e.Name, "culprit/testdata/") || strings.HasPrefix(e.Name, "culprit/ci/")
	})
	linked, err := r.chartFiles("culprit/files")
	if err != nil {
		return err
	}
	return archive.TarGz(r.chartFile(dist), slices.Concat(own, linked), r.source.Date)
}

func (r *release) chartFile(dist string) string {
	return filepath.Join(dist, "culprit-"+r.source.Version+".tgz")
}

// publish brings images, and the chart where it is a registry, to a cluster.
func (r *release) publish(ctx context.Context, dist string) error {
	if r.to == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(dist, "*.oci.tar"))
	if err != nil {
		return err
	}
	if err := publish.Images(ctx, r.to, files); err != nil {
		return err
	}
	chart, more := r.chartFile(dist), ""
	if publish.IsRegistry(r.to) {
		if err := publish.Chart(ctx, r.to, chart, "culprit", r.source.Version); err != nil {
			return err
		}
		chart, more = "oci://"+r.to+"/culprit --version "+r.source.Version, " --set image.registry="+r.to
	}
	fmt.Fprintf(os.Stderr, "release: helm install culprit %s --namespace culprit --create-namespace%s\n", chart, more)
	return nil
}

func (r *release) packages(arch, dist string) error {
	unit, err := r.packagedUnits()
	if err != nil {
		return err
	}
	descriptions, err := filepath.Glob(filepath.Join(r.source.Root, "deploy", "packages", "*.yaml"))
	if err != nil {
		return err
	}
	for _, description := range descriptions {
		for _, format := range packages.Formats {
			if err := packages.Write(description, format, dist, map[string]string{
				"ROOT": r.source.Root, "STAGE": r.stage(arch), "MIXIN": r.mixin(), "UNITS": unit, "MAN": filepath.Join(r.out, "stage", "man"),
				"ARCH": arch, "VERSION": r.source.Version,
			}, r.source.Date); err != nil {
				return err
			}
		}
	}
	return nil
}

// packagedUnits are the units with the place of packaged programs.
func (r *release) packagedUnits() (string, error) {
	to := filepath.Join(r.out, "stage", "units")
	if err := os.MkdirAll(to, 0o755); err != nil {
		return "", err
	}
	units, err := filepath.Glob(filepath.Join(r.source.Root, "deploy", "systemd", "*.service"))
	if err != nil {
		return "", err
	}
	for _, name := range units {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		text = bytes.ReplaceAll(text, []byte("/usr/local/bin/"), []byte("/usr/bin/"))
		if err := os.WriteFile(filepath.Join(to, filepath.Base(name)), text, 0o644); err != nil {
			return "", err
		}
	}
	return to, nil
}

// bill lists what an architecture's artefacts are made of.
func (r *release) bill(arch, dist string) error {
	s := sbom.Subject{Name: "culprit", Version: r.source.Version, Date: r.source.Date}
	for _, p := range build.Programs {
		s.Programs = append(s.Programs, filepath.Join(r.stage(arch), "bin", p.Name))
	}
	for _, l := range build.Libraries {
		s.Libraries = append(s.Libraries, filepath.Join(r.stage(arch), "lib", l))
	}
	for _, p := range []debian.Package{debian.Libc[arch], debian.CA} {
		s.Debian = append(s.Debian, sbom.Debian{Name: p.Name, Version: p.Version, Arch: p.Arch, SHA256: p.SHA256})
	}
	text, err := sbom.Write(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dist, fmt.Sprintf("culprit-%s.linux-%s.cdx.json", r.source.Version, arch)), text, 0o644)
}

// writeImages writes one for each program. The exporter's has the shim, which it installs on nodes, and a C library, since NVML needs one.
func (r *release) writeImages(ctx context.Context, dist string) error {
	certificates, err := r.certificates(ctx)
	if err != nil {
		return err
	}
	for _, p := range build.Programs {
		var images []image.Image
		for _, arch := range r.arches {
			i := image.Image{Arch: arch, Entrypoint: []string{"/usr/bin/" + p.Name}, Labels: map[string]string{
				"org.opencontainers.image.source": "https://github.com/culprit-project/culprit", "org.opencontainers.image.version": r.source.Version,
				"org.opencontainers.image.revision": r.source.Revision, "org.opencontainers.image.licenses": "Apache-2.0",
			}}
			program, err := archive.File("usr/bin/"+p.Name, filepath.Join(r.stage(arch), "bin", p.Name), 0o755)
			if err != nil {
				return err
			}
			own := []archive.Entry{program}
			base := certificates
			if p.Name == "culprit-exporter" {
				libc, err := r.libc(ctx, arch)
				if err != nil {
					return err
				}
				base = slices.Concat(libc, certificates)
				shim, err := archive.Folder("usr/lib/culprit", filepath.Join(r.stage(arch), "lib"))
				if err != nil {
					return err
				}
				own = append(own, shim...)
			}
			i.Layers = [][]archive.Entry{base, own}
			images = append(images, i)
		}
		to := filepath.Join(dist, fmt.Sprintf("%s-%s.oci.tar", p.Name, r.source.Version))
		if err := image.Write(to, registry+"/"+p.Name+":"+r.source.Version, images, r.source.Date); err != nil {
			return err
		}
	}
	return nil
}

// libc are the files of Debian's C library that programs load. NVIDIA's container runtime looks for the file debian_version to
// learn where libraries belong.
func (r *release) libc(ctx context.Context, arch string) ([]archive.Entry, error) {
	file, err := debian.Fetch(ctx, debian.Libc[arch], r.cache)
	if err != nil {
		return nil, err
	}
	entries, err := debian.Files(file, func(name string) bool {
		return strings.HasPrefix(name, "lib") || name == "usr/share/doc/libc6/copyright"
	})
	return append(entries, archive.Entry{Name: "etc/debian_version", Mode: 0o644, Data: []byte("12\n")}), err
}

// certificates are those of the public authorities in the one file that programs read.
func (r *release) certificates(ctx context.Context) ([]archive.Entry, error) {
	file, err := debian.Fetch(ctx, debian.CA, r.cache)
	if err != nil {
		return nil, err
	}
	const from = "usr/share/ca-certificates/mozilla/"
	entries, err := debian.Files(file, func(name string) bool { return strings.HasPrefix(name, from) || strings.HasSuffix(name, "/copyright") })
	if err != nil {
		return nil, err
	}
	var all bytes.Buffer
	var out []archive.Entry
	for _, e := range entries {
		if strings.HasPrefix(e.Name, from) {
			all.Write(e.Data)
		} else {
			out = append(out, e)
		}
	}
	return append(out, archive.Entry{Name: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Data: all.Bytes()}), nil
}

// sums writes the statement of where the artefacts come from, and the checksums of all.
func (r *release) sums(ctx context.Context, dist string) error {
	compilers := map[string]string{}
	for name, ask := range map[string][]string{"go": {"go", "env", "GOVERSION"}, "zig": {r.zig, "version"}} {
		release, err := exec.CommandContext(ctx, ask[0], ask[1:]...).Output()
		if err != nil {
			return fmt.Errorf("asking for the release of %s: %w", name, err)
		}
		compilers[name] = strings.TrimSpace(string(release))
	}
	artefacts, err := digests(dist)
	if err != nil {
		return err
	}
	materials := []provenance.Digest{{Name: debian.CA.Name, SHA256: debian.CA.SHA256}}
	for _, arch := range r.arches {
		p := debian.Libc[arch]
		materials = append(materials, provenance.Digest{Name: p.Name + ":" + arch, SHA256: p.SHA256})
	}
	statement, err := provenance.Statement(provenance.Build{
		Version: r.source.Version, Revision: r.source.Revision, Date: r.source.Date, Compilers: compilers,
		Materials: materials, Artefacts: artefacts,
	})
	if err != nil {
		return fmt.Errorf("writing the provenance: %w", err)
	}
	name := fmt.Sprintf("culprit-%s.provenance.json", r.source.Version)
	if err := os.WriteFile(filepath.Join(dist, name), statement, 0o644); err != nil {
		return err
	}
	if artefacts, err = digests(dist); err != nil {
		return err
	}
	var text strings.Builder
	for _, a := range artefacts {
		fmt.Fprintf(&text, "%s  %s\n", a.SHA256, a.Name)
	}
	return os.WriteFile(filepath.Join(dist, "SHA256SUMS"), []byte(text.String()), 0o644)
}

func digests(dir string) ([]provenance.Digest, error) {
	var out []provenance.Digest
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		sum := sha256.Sum256(data)
		out = append(out, provenance.Digest{Name: d.Name(), SHA256: hex.EncodeToString(sum[:])})
		return err
	})
	return out, err
}
