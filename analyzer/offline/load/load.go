// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package load reads files of whatever kind: it walks directories, unpacks archives, recognises each file by its content, and
// hands it to the reader of its kind. What was understood comes back as sources of evidence.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// File is what became of one file, or of one member of an archive.
type File struct {
	Path    string `json:"path"`
	Kind    string `json:"kind,omitempty"` // Empty: not understood.
	Bytes   int64  `json:"bytes"`
	Error   string `json:"error,omitempty"`
	Warning string `json:"warning,omitempty"` // It was used, but not all of it.
}

// Line says what became of the file in one line.
func (f File) Line() string {
	switch {
	case f.Error != "":
		return f.Path + ": " + f.Error
	case f.Warning != "":
		return f.Path + ": " + f.Warning
	default:
		return f.Path + ": " + f.Kind
	}
}

// Loader reads files side by side.
type Loader struct {
	MaxFile  int64             // Bytes that a single file may have after unpacking.
	MaxTotal int64             // Bytes that all may have after unpacking, beside unpackRatio times what was packed; 0: maxTotal.
	Columns  map[string]string // Columns of op tables by role.
	Stdin    io.Reader         // What the path "-" stands for.
	Progress *Progress
	Watch    Watch
	alone    bool // One file was given.
}

// Watch is told which files are read, and says how: what one of them takes is to cost the others nothing.
type Watch struct {
	Begin, End func(path string) // Nil: nobody watches.
	Last       []string          // These are read one by one, after all others,
	LeftOut    []string          // and these not at all: they took all memory.
	Memory     int64             // Bytes there are; from a half on, what is left to be read waits, and is left out. 0: no bound.
}

var (
	errTooMuch = errors.New("reading it takes all memory")
	errNoRoom  = errors.New("left out: what was read before takes half of the memory")
)

// full reports whether what has been kept leaves too little memory.
func (w *Watch) full() bool {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for range 2 {
		if metrics.Read(live); w.Memory == 0 || int64(live[0].Value.Uint64()) < w.Memory/2 {
			return false
		}
		runtime.GC() // Some of it may only have been read through.
	}
	return true
}

const (
	maxFiles    = 1 << 20
	maxTotal    = 4 << 30
	inFlightMax = 512 << 20 // Bytes of files held in memory at a time, unless a single one is larger.
)

// Load reads all paths. The error is about the paths; what is wrong with a file's content is in its result.
func (l *Loader) Load(ctx context.Context, paths []string) (*Collection, error) {
	files, err := expand(paths)
	if err != nil {
		return nil, err
	}
	l.alone = len(files) == 1
	got := &Collection{}
	l.Progress.begin(files)
	defer l.Progress.end()
	jobs := make(chan input)
	var mu sync.Mutex
	var last []input
	room, total := newBudget(inFlightMax), &allowance{base: cmp.Or(l.MaxTotal, maxTotal)}
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(files)) {
		wg.Go(func() {
			for in := range jobs {
				if l.Watch.full() {
					mu.Lock()
					last = append(last, in)
					mu.Unlock()
					continue
				}
				l.watched(ctx, in, got, room, total, &mu)
			}
		})
	}
	for _, in := range files {
		switch {
		case slices.Contains(l.Watch.LeftOut, in.path):
			add(got, &got.Files, File{Path: in.path, Bytes: in.size, Error: errTooMuch.Error()})
			continue
		case slices.Contains(l.Watch.Last, in.path):
			mu.Lock()
			last = append(last, in)
			mu.Unlock()
			continue
		}
		select {
		case jobs <- in:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(jobs)
	wg.Wait()
	for _, in := range last {
		if ctx.Err() == nil && l.Watch.full() {
			add(got, &got.Files, File{Path: in.path, Bytes: in.size, Error: errNoRoom.Error()})
			continue
		}
		l.watched(ctx, in, got, room, total, &mu)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	got.sort()
	return got, nil
}

// watched reads one input, and tells of it.
func (l *Loader) watched(ctx context.Context, in input, got *Collection, room *budget, total *allowance, mu *sync.Mutex) {
	tell := func(say func(path string)) {
		if say != nil {
			mu.Lock()
			defer mu.Unlock()
			say(in.path)
		}
	}
	tell(l.Watch.Begin)
	l.one(ctx, in, got, room, total)
	l.Progress.add(in.size)
	tell(l.Watch.End)
}

// one reads one file, and whatever is packed in it.
func (l *Loader) one(ctx context.Context, in input, got *Collection, room *budget, total *allowance) {
	var r io.Reader = l.Stdin
	var at io.ReaderAt
	if in.path != Stdin {
		f, err := in.open()
		if err != nil {
			add(got, &got.Files, File{Path: in.path, Error: fmt.Sprintf("opening: %v", unwrapPath(err))})
			return
		}
		defer func() { _ = f.Close() }()
		if r = f; in.size > 0 && in.holes == 0 {
			at = f
		}
	}
	u := unpacker{
		max: l.MaxFile, room: room, total: total, at: at,
		isLog:  func(head []byte) bool { return l.isLog(ctx, head) },
		member: func(name string, data []byte) { l.understand(ctx, name, data, got) },
		failed: func(name string, err error) { add(got, &got.Files, File{Path: name, Error: err.Error()}) },
	}
	if in.holes > 0 { // Its holes are packed, too.
		total.read.Add(in.size - in.holes)
		r = total.unpacked(r)
	} else {
		r = total.packed(r)
	}
	if err := u.unpack(in.path, in.size, r); err != nil {
		add(got, &got.Files, File{Path: in.path, Bytes: in.size, Error: err.Error()})
	}
}

type file interface {
	io.ReadCloser
	io.ReaderAt
}

// input is a file to read.
type input struct {
	path  string
	size  int64 // As the directory says; 0 unknown.
	holes int64 // Bytes of it that are stored nowhere.
	found bool  // In a folder that was named.
}

// open opens a file. What nobody named is not waited for: a link may lead to a file of the kernel that gives what comes, such as /proc/kmsg.
func (in *input) open() (file, error) {
	if !in.found {
		return os.Open(in.path)
	}
	fd, err := syscall.Open(in.path, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	return unwaited(fd), err
}

// unwaited is a descriptor of which a read that would have to wait fails. Those of the package os wait all the same.
type unwaited int

func (fd unwaited) Read(p []byte) (int, error) {
	for {
		n, err := syscall.Read(int(fd), p)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, err
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (fd unwaited) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		more, err := syscall.Pread(int(fd), p[n:], off+int64(n))
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return n, err
		case more == 0:
			return n, io.EOF
		default:
			n += more
		}
	}
	return n, nil
}

func (fd unwaited) Close() error { return syscall.Close(int(fd)) }

// Stdin is the path of standard input.
const Stdin = "-"

// expand walks directories. Hidden names are left out, as is what is neither file nor directory.
func expand(paths []string) ([]input, error) {
	var out []input
	seen := map[string]bool{}
	add := func(path string, size, holes int64, found bool) error {
		if clean := filepath.Clean(path); !seen[clean] {
			seen[clean] = true
			out = append(out, input{path, size, holes, found})
		}
		if len(out) > maxFiles {
			return fmt.Errorf("more than %d files", maxFiles)
		}
		return nil
	}
	for _, p := range paths {
		if p == Stdin || p == "" { // The command line's parser turns a lone dash into nothing.
			p = Stdin
			if err := add(p, 0, 0, false); err != nil {
				return nil, err
			}
			continue
		}
		info, err := os.Stat(p)
		if err != nil {
			return nil, fmt.Errorf("looking at %s: %w", p, unwrapPath(err))
		}
		if !info.IsDir() {
			if err := add(p, info.Size(), holes(info), false); err != nil {
				return nil, err
			}
			continue
		}
		err = filepath.WalkDir(p, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil && path != p && d.IsDir():
				// Opening it says why it is not read. The rest is.
				if err := add(path, 0, 0, true); err != nil {
					return err
				}
				return fs.SkipDir
			case err != nil:
				return err
			case path != p && hidden(d.Name()):
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
			case !d.Type().IsRegular() && d.Type()&fs.ModeSymlink == 0:
				return nil
			}
			info, err := os.Stat(path)
			if err != nil || !info.Mode().IsRegular() {
				return nil // A dangling link is no input.
			}
			return add(path, info.Size(), holes(info), true)
		})
		if err != nil {
			return nil, fmt.Errorf("looking into %s: %w", p, unwrapPath(err))
		}
	}
	slices.SortStableFunc(out, func(a, b input) int { return strings.Compare(a.path, b.path) })
	return out, nil
}

// hidden reports whether what has the name is left out, as what systems put beside the files of people.
func hidden(name string) bool { return strings.HasPrefix(name, ".") && name != "." && name != ".." }

// holes gives how many bytes of a file are stored nowhere, as of a sparse one.
func holes(info fs.FileInfo) int64 {
	const block = 512 // Bytes, whatever the file system.
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() || st.Blocks == 0 && info.Size() < 1<<16 { // Small ones lie within their inode.
		return 0
	}
	return max(0, info.Size()-st.Blocks*block)
}

// unwrapPath drops the path that os errors repeat.
func unwrapPath(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// budget bounds what is in memory at a time.
type budget struct {
	mu   sync.Mutex
	free *sync.Cond
	left int64
	most int64
}

func newBudget(n int64) *budget {
	b := &budget{left: n, most: n}
	b.free = sync.NewCond(&b.mu)
	return b
}

// take waits for n bytes, or for all there are where n is more. It returns what to give back.
func (b *budget) take(n int64) int64 {
	n = min(n, b.most)
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.left < n {
		b.free.Wait()
	}
	b.left -= n
	return n
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	b.left += n
	b.mu.Unlock()
	b.free.Broadcast()
}
