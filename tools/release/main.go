// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Release builds what is published: tarballs, packages, images, the lists of what is in them and their checksums. The same sources
// and the same release of Go give the same bytes, wherever they are built.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/culprit-project/culprit/tools/release/build"
	"github.com/culprit-project/culprit/tools/release/debian"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run() error {
	var r release
	var date string
	flag.StringVar(&r.source.Root, "root", ".", "The repository.")
	flag.StringVar(&r.source.Version, "version", "", "Version.")
	flag.StringVar(&r.source.Revision, "revision", "", "Revision, in full.")
	flag.StringVar(&date, "date", "", "Time of the revision (RFC 3339).")
	flag.StringVar(&r.zig, "zig", "", "Path of zig.")
	flag.StringVar(&r.cache, "cache", ".cache/debian", "Folder of downloaded packages.")
	flag.StringVar(&r.out, "out", "build/release", "Folder to write to; it is emptied first.")
	arches := flag.String("arch", strings.Join(build.Arches, ","), "Architectures.")
	flag.BoolVar(&r.images, "images", false, "Build only images and the chart.")
	flag.StringVar(&r.to, "to", "", "With --images: kind, k3s or containerd of this machine, or a registry with a folder, such as registry.example.org/culprit.")
	mirror := flag.String("debian-mirror", os.Getenv("DEBIAN_MIRROR"), "Mirror of deb.debian.org.")
	flag.Parse()
	if *mirror != "" {
		debian.Mirror(*mirror)
	}
	r.arches = strings.Split(*arches, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if r.source.Date, err = time.Parse(time.RFC3339, date); err != nil {
		return fmt.Errorf("reading --date: %w", err)
	}
	return r.run(ctx)
}
