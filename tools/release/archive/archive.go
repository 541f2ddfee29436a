// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package archive writes tar files that depend on nothing but what is in them: sorted, root's, and of one time.
package archive

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// Entry is a file, a directory (mode with fs.ModeDir) or a symbolic link (Link).
type Entry struct {
	Name string // With slashes, relative.
	Mode fs.FileMode
	Data []byte
	Link string
}

// File reads a file of this machine.
func File(name, from string, mode fs.FileMode) (Entry, error) {
	data, err := os.ReadFile(from)
	return Entry{Name: name, Mode: mode, Data: data}, err
}

// Folder reads the files in a folder of this machine, under the name below, without symbolic links. Executables stay executable.
func Folder(below, from string) ([]Entry, error) {
	var entries []Entry
	err := filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		e, err := File(path.Join(below, filepath.ToSlash(rel)), name, 0o644|info.Mode()&0o111)
		entries = append(entries, e)
		return err
	})
	return entries, err
}

// Tar writes entries with the folders above them. All are of the time at.
func Tar(w io.Writer, entries []Entry, at time.Time) error {
	all := map[string]Entry{}
	for _, e := range entries {
		all[e.Name] = e
	}
	for _, e := range entries {
		for dir := path.Dir(e.Name); dir != "."; dir = path.Dir(dir) {
			if _, ok := all[dir]; !ok {
				all[dir] = Entry{Name: dir, Mode: fs.ModeDir | 0o755}
			}
		}
	}
	t := tar.NewWriter(w)
	for _, e := range sorted(all) {
		if err := write(t, e, at); err != nil {
			return fmt.Errorf("writing %s: %w", e.Name, err)
		}
	}
	return t.Close()
}

func sorted(entries map[string]Entry) []Entry {
	var list []Entry
	for _, e := range entries {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func write(t *tar.Writer, e Entry, at time.Time) error {
	h := &tar.Header{Name: e.Name, Mode: tarMode(e.Mode), ModTime: at, Format: tar.FormatPAX}
	switch {
	case e.Mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, e.Name+"/"
	case e.Link != "":
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.Link
	default:
		h.Typeflag, h.Size = tar.TypeReg, int64(len(e.Data))
	}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err := t.Write(e.Data)
	return err
}

func tarMode(m fs.FileMode) int64 {
	mode := int64(m.Perm())
	if m&fs.ModeSticky != 0 {
		mode |= 0o1000
	}
	return mode
}

// TarGz writes a compressed tar to the file to.
func TarGz(to string, entries []Entry, at time.Time) (err error) {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, f.Close()) }()
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression) // Its header has neither name nor time.
	if err != nil {
		return err
	}
	if err := Tar(z, entries, at); err != nil {
		return fmt.Errorf("writing %s: %w", to, err)
	}
	return z.Close()
}
