// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/trace"
)

// Every user has a folder of its own in the root of the trace files, and a pod may have a root of its own in the node's. Older
// plugins put their files into the root itself. All of it is opened by descriptor: a symbolic link is never followed, not even
// one that takes a folder's place while it is looked at.

const (
	// maxFolders bounds how many folders of a root are looked into.
	maxFolders = 256
	// maxUserFolders bounds how many of them may be one user's. A user has one, and another where somebody took its name.
	maxUserFolders = 4
	// maxListed bounds how many names of a user's folder are looked at, and maxRootListed of a root, to which all users add. Making an
	// empty file takes a microsecond and its listing as long, during which no file is sampled.
	maxListed     = 1 << 14
	maxRootListed = 1 << 20
	// listedAtOnce is how many names are held at a time.
	listedAtOnce = 256
	// maxKept bounds how many files a directory shows with which each folder may show maxFiles, and fewKept what those may that are
	// looked into afterwards.
	maxKept = 16 * maxFiles
	fewKept = 64
	// maxFolderDepth is how deep a user's folder lies at most: in a pod's root in the node's.
	maxFolderDepth = 2
	// maxRefused bounds how much of what is not looked into is remembered, to be told once each.
	maxRefused = 64
)

var (
	errStranger = errors.New("it belongs to another user than the directory that it lies in")
	errLink     = errors.New("it is in place of a directory and is none")
)

// folder is an open directory.
type folder struct {
	file    *os.File
	path    string
	owner   uint32
	changed time.Time // Before it was listed: what is made meanwhile shows as a change.
	shared  bool      // A root: files of all users may lie in it, and folders.
}

// openFolder opens a directory in another one, or by its path for unix.AT_FDCWD.
func openFolder(parent int, name, path string) (*folder, error) {
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return newFolder(fd, path)
}

// newFolder takes over an open directory.
func newFolder(fd int, path string) (*folder, error) {
	f := &folder{file: os.NewFile(uintptr(fd), path), path: path}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, errors.Join(&fs.PathError{Op: "stat", Path: path, Err: err}, f.file.Close())
	}
	f.owner, f.changed, f.shared = st.Uid, time.Unix(st.Mtim.Unix()), sharedRoot(&st)
	return f, nil
}

// sharedRoot tells whether all users can make their own in a directory of root's, and none remove another's.
func sharedRoot(st *unix.Stat_t) bool {
	return st.Uid == 0 && st.Mode&unix.S_ISVTX != 0 && st.Mode&unix.S_IWOTH != 0
}

func (f *folder) fd() int { return int(f.file.Fd()) }

func (f *folder) close() {
	_ = f.file.Close() // Nothing was written.
}

// stat looks at what a name stands for, and follows no link.
func (f *folder) stat(name string) (st unix.Stat_t, err error) {
	err = unix.Fstatat(f.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

// openParent opens the folder that a file of a root lies in, step by step.
func openParent(root, path string) (*folder, error) {
	f, err := openFolder(unix.AT_FDCWD, root, root)
	if err != nil {
		return nil, err
	}
	f.shared = true
	rel, err := filepath.Rel(root, filepath.Dir(path))
	if err != nil {
		f.close()
		return nil, fmt.Errorf("finding %s in %s: %w", path, root, err)
	}
	if rel == "." {
		return f, nil
	}
	for name := range strings.SplitSeq(rel, string(filepath.Separator)) {
		inner, err := openFolder(f.fd(), name, filepath.Join(f.path, name))
		f.close()
		if err != nil {
			return nil, err
		}
		f = inner
	}
	return f, nil
}

// tree is what a root shows at one time.
type tree struct {
	folders []*folder
	files   []found
	// refused is what lies in a place where only folders or files of certain users are looked at.
	refused []refusal
	left    int             // Folders not looked into, files not kept, and listings not read to their end.
	used    map[string]bool // Files that are followed, and their folders, by path: they go first.
}

type refusal struct {
	path string
	id   fileID
	err  error
}

// refuse notes what is not looked into. Anybody can make very many of these.
func (t *tree) refuse(path string, id fileID, reason trace.Reason, err error) {
	if len(t.refused) < maxRefused {
		t.refused = append(t.refused, refusal{path, id, &trace.Error{Reason: reason, Err: err}})
	}
}

func (t *tree) close() {
	for _, f := range t.folders {
		f.close()
	}
}

// readTree lists a root and the folders in it. The folders stay open until the tree is closed.
func readTree(root string, used map[string]bool) (*tree, error) {
	f, err := openFolder(unix.AT_FDCWD, root, root)
	if err != nil {
		return nil, err
	}
	f.shared = true
	t := &tree{folders: []*folder{f}, used: used}
	if err := t.list(f, 0); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// trouble tells who else could take others' folders out of the root; empty: nobody.
func (t *tree) trouble() string {
	root := t.folders[0]
	if root.owner == 0 || root.owner == uint32(os.Geteuid()) { // User numbers have 32 bits.
		return ""
	}
	return fmt.Sprintf("user %d owns it and can hide other users' jobs: culprit-exporter --trace.prepare as root gives it to root", root.owner)
}

// inner is a folder that has not been opened yet.
type inner struct {
	name  string
	owner uint32
	turn  int // Those with less go first.
}

// listing is what has been found in a folder so far. It stays small however much there is: anybody can make millions of files.
type listing struct {
	of      *folder
	depth   int
	most    int // Files kept of one user.
	folders []inner
	files   map[kind]int
	unused  map[uint32]int // Folders by owner that are neither in use nor have their owner's name.
}

// kind is of what a listing keeps so many files. Empty ones do not count against others.
type kind struct {
	uid   uint32
	empty bool
}

func (t *tree) list(f *folder, depth int) error {
	l := &listing{of: f, depth: depth, most: maxFiles, files: map[kind]int{}, unused: map[uint32]int{}}
	if len(t.files) >= maxKept {
		l.most = fewKept
	}
	most := maxListed
	if depth == 0 {
		most = maxRootListed
	}
	for seen := 0; ; {
		entries, err := f.file.ReadDir(listedAtOnce)
		for _, e := range entries {
			t.note(l, e)
		}
		if seen += len(entries); errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("listing %s: %w", f.path, err)
		}
		if seen >= most {
			t.left++
			break
		}
	}
	t.descend(f, l.folders, depth)
	return nil
}

// note takes in one entry of a folder, if it may be of use.
func (t *tree) note(l *listing, e fs.DirEntry) {
	f, name := l.of, e.Name()
	isFile := strings.HasSuffix(name, trace.Suffix) && !strings.HasPrefix(name, ".")
	if !isFile && !(f.shared && l.depth < maxFolderDepth && (e.IsDir() || userFolder(name))) {
		return
	}
	st, err := f.stat(name)
	if err != nil {
		return // It has gone meanwhile.
	}
	path := filepath.Join(f.path, name)
	id := fileID{uint64(st.Dev), st.Ino} //nolint:unconvert // Dev's type differs between systems.
	switch {
	case isFile && !f.shared && st.Uid != f.owner:
		t.refuse(path, id, trace.ReasonOwner, errStranger)
	case isFile:
		of := kind{st.Uid, st.Size == 0}
		if l.files[of]++; l.files[of] > l.most && !t.used[path] {
			t.left++
			return
		}
		t.files = append(t.files, found{path: path, id: id, uid: st.Uid, empty: of.empty, in: f})
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		t.refuse(path, id, trace.ReasonHostile, errLink)
	case userFolder(name) || sharedRoot(&st):
		in := inner{name, st.Uid, t.turn(path, st.Uid)}
		if in.turn == unusedTurn {
			l.unused[st.Uid]++
			if l.unused[st.Uid] > maxFolders {
				t.left++
				return
			}
		}
		l.folders = append(l.folders, in)
	}
}

// userFolder tells whether a name is one that the plugin gives to a user's folder: "u1000", or "u1000-" and more.
func userFolder(name string) bool {
	number, _, _ := strings.Cut(name, "-")
	return len(number) > 1 && number[0] == 'u' && strings.Trim(number[1:], "0123456789") == ""
}

// unusedTurn is the turn of folders that go last.
const unusedTurn = 2

// turn puts folders that are in use before those with their owner's usual name, and these before all others.
func (t *tree) turn(path string, owner uint32) int {
	switch {
	case t.used[path]:
		return 0
	case filepath.Base(path) == "u"+strconv.FormatUint(uint64(owner), 10):
		return 1
	}
	return unusedTurn
}

func (t *tree) descend(f *folder, folders []inner, depth int) {
	slices.SortFunc(folders, func(a, b inner) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.owner, b.owner), cmp.Compare(a.name, b.name))
	})
	users := map[uint32]int{}
	for _, candidate := range folders {
		if users[candidate.owner]++; candidate.owner != 0 && users[candidate.owner] > maxUserFolders || len(t.folders) > maxFolders {
			t.left++
			continue
		}
		in, err := openFolder(f.fd(), candidate.name, filepath.Join(f.path, candidate.name))
		if err != nil {
			continue // Another one, or none, by now: the next listing sees what.
		}
		t.folders = append(t.folders, in)
		if err := t.list(in, depth+1); err != nil {
			continue
		}
	}
}
