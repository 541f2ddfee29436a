// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package jsonl keeps values in a file of JSON lines as they come, so that a long run that is ended can go on.
package jsonl

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// File is a file of values to which more are appended.
type File[T any] struct {
	lock sync.Mutex
	file *os.File
}

// Open opens a file to append to: a new one, or with keep one that may have values. A last line that was cut short is
// removed.
func Open[T any](path string, keep bool) (*File[T], []T, error) {
	flags := os.O_RDWR | os.O_CREATE
	if !keep {
		flags |= os.O_TRUNC
	}
	file, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return nil, nil, err
	}
	values, whole, err := read[T](file)
	if err == nil {
		err = file.Truncate(whole)
	}
	if err == nil {
		_, err = file.Seek(whole, io.SeekStart)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("reading %s: %w", path, err), file.Close())
	}
	return &File[T]{file: file}, values, nil
}

// Read reads the values of a file that may still be written to.
func Read[T any](path string) ([]T, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	values, _, err := read[T](file)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return values, nil
}

// read gives the values, and the length of the part that is whole lines.
func read[T any](r io.Reader) (values []T, whole int64, err error) {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return values, whole, nil
		}
		if err != nil {
			return nil, 0, err
		}
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", len(values)+1, err)
		}
		values = append(values, v)
		whole += int64(len(line))
	}
}

// Add appends a value.
func (f *File[T]) Add(v *T) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("writing %s: %w", f.file.Name(), err)
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	_, err = f.file.Write(append(line, '\n'))
	return err
}

// Close closes the file.
func (f *File[T]) Close() error { return f.file.Close() }
