// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/trace"
)

// Every user has a folder of its own in the root of the trace files, and a pod may have a root of its own in the node's. Older
// plugins put their files into the root itself. All of it is opened by descriptor: a symbolic link is never followed, not even
// one that takes a folder's place while it is looked at.

const (
	// maxFolders bounds how many folders of a root are looked into that no living process is known to use, and maxPodFolders those in a pod's root.
	// Of these, maxUserFolders may be one user's, and maxRootFolders root's, of whom each pod has one. Where there are more, chance chooses each time
	// anew, so that each has its turn: what living processes use is looked into always, once it was found.
	maxFolders, maxPodFolders      = 1024, 64
	maxUserFolders, maxRootFolders = 32, 512
	// maxOwners bounds of how many users folders are remembered while a root is listed.
	maxOwners = 1 << 13
	// ownNames is how many names the plugin tries for a user's folder before it takes one that nobody can know.
	ownNames = 16
	// maxListed bounds how many names of a user's folder are looked at.
	maxListed = 1 << 14
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

// maxRootListed bounds how many names of a root are looked at, to which all users add. Making an empty file takes a microsecond and its listing
// as long, during which no file is sampled. It is less in tests.
var maxRootListed = 1 << 20

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
	living  func() map[uint32]bool
	changed map[string]time.Time // Of the folders looked into, by path.
	lots    maphash.Seed         // By which folders are chosen this time.
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

// readTree lists a root and the folders in it. Those with files stay open until the tree is closed. living gives the users of whom processes
// run; it is called when not all folders can be looked into.
func readTree(root string, used map[string]bool, living func() map[uint32]bool) (*tree, error) {
	f, err := openFolder(unix.AT_FDCWD, root, root)
	if err != nil {
		return nil, err
	}
	f.shared = true
	t := &tree{folders: []*folder{f}, used: used, living: sync.OnceValue(living), changed: map[string]time.Time{f.path: f.changed}, lots: maphash.MakeSeed()}
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
	turn  int    // Those with less go first.
	lot   uint64 // Among those of a turn.
}

// listing is what has been found in a folder so far. It stays small however much there is: anybody can make millions of files.
type listing struct {
	of     *folder
	depth  int
	most   int // Files kept of one user.
	used   []inner
	others map[uint32][]inner // Folders by owner that are not known to be in use.
	bits   int                // So many bits of an owner's lot must be 0 for its folders to be remembered.
	files  map[kind]int
}

// kind is of what a listing keeps so many files. Empty ones do not count against others.
type kind struct {
	uid   uint32
	empty bool
}

func (t *tree) list(f *folder, depth int) error {
	l := &listing{of: f, depth: depth, most: maxFiles, files: map[kind]int{}, others: map[uint32][]inner{}}
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
			if depth == 0 {
				t.tryNames(l)
			}
			break
		}
	}
	t.descend(l)
	return nil
}

// tryNames looks for what the rest of a listing may hold: what is followed, and the folders of users of whom processes run.
func (t *tree) tryNames(l *listing) {
	for path := range t.used {
		if filepath.Dir(path) == l.of.path {
			t.noteName(l, filepath.Base(path))
		}
	}
	for uid := range t.living() {
		for i := range ownNames {
			t.noteName(l, ownName(uid, i))
		}
	}
}

// ownName is the name of a user's folder: the usual one, and others where somebody took it.
func ownName(uid uint32, i int) string {
	name := "u" + strconv.FormatUint(uint64(uid), 10)
	if i > 0 {
		name += "-" + strconv.Itoa(i)
	}
	return name
}

func isOwnName(name string, owner uint32) bool {
	for i := range ownNames {
		if name == ownName(owner, i) {
			return true
		}
	}
	return false
}

// noteName takes in what a name stands for, unless it was listed.
func (t *tree) noteName(l *listing, name string) {
	st, err := l.of.stat(name)
	if err != nil {
		return
	}
	path := filepath.Join(l.of.path, name)
	same := func(in inner) bool { return in.name == name }
	if slices.ContainsFunc(l.used, same) || slices.ContainsFunc(l.others[st.Uid], same) || slices.ContainsFunc(t.files, func(f found) bool { return f.path == path }) {
		return
	}
	t.take(l, name, &st)
}

// note takes in one entry of a folder, if it may be of use.
func (t *tree) note(l *listing, e fs.DirEntry) {
	f, name := l.of, e.Name()
	if !traceName(name) && !(f.shared && l.depth < maxFolderDepth && (e.IsDir() || userFolder(name))) {
		return
	}
	st, err := f.stat(name)
	if err != nil {
		return // It has gone meanwhile.
	}
	t.take(l, name, &st)
}

// take takes in what a name of a folder stands for.
func (t *tree) take(l *listing, name string, st *unix.Stat_t) {
	f, isFile := l.of, traceName(name)
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
	case userFolder(name) || sharedRoot(st):
		t.keep(l, inner{name, st.Uid, t.turn(path, st.Uid), maphash.String(t.lots, name)})
	}
}

// keep remembers a folder to look into.
func (t *tree) keep(l *listing, in inner) {
	if in.turn == usedTurn {
		l.used = append(l.used, in)
		return
	}
	if len(l.others) >= maxOwners && l.others[in.owner] == nil {
		t.sieve(l)
	}
	if !t.kept(l, in.owner) {
		t.left++
		return
	}
	most := maxUserFolders
	if in.owner == 0 {
		most = maxRootFolders
	}
	list := l.others[in.owner]
	list = append(list, in)
	if len(list) >= 2*most {
		slices.SortFunc(list, compareInner)
		t.left += len(list) - most
		list = list[:most]
	}
	l.others[in.owner] = list
}

// sieve forgets the folders of half of the owners of whom no process runs, by lot.
func (t *tree) sieve(l *listing) {
	l.bits++
	for owner, list := range l.others {
		if !t.kept(l, owner) {
			t.left += len(list)
			delete(l.others, owner)
		}
	}
}

func (t *tree) kept(l *listing, owner uint32) bool {
	return l.bits == 0 || maphash.Comparable(t.lots, owner)&(1<<min(l.bits, 63)-1) == 0 || t.living()[owner]
}

// traceName tells whether a name is a trace file's.
func traceName(name string) bool {
	return strings.HasSuffix(name, trace.Suffix) && !strings.HasPrefix(name, ".")
}

// userFolder tells whether a name is one that the plugin gives to a user's folder: "u1000", or "u1000-" and more.
func userFolder(name string) bool {
	number, _, _ := strings.Cut(name, "-")
	return len(number) > 1 && number[0] == 'u' && strings.Trim(number[1:], "0123456789") == ""
}

// Turns of folders.
const (
	usedTurn  = iota // In use.
	ownTurn          // With a name of its owner's.
	otherTurn        // All others.
)

// turn puts folders that are in use before those with a name of their owner's, and these before all others.
func (t *tree) turn(path string, owner uint32) int {
	name := filepath.Base(path)
	switch {
	case t.used[path]:
		return usedTurn
	case isOwnName(name, owner):
		return ownTurn
	}
	return otherTurn
}

func compareInner(a, b inner) int {
	return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.lot, b.lot))
}

// descend looks into the folders of a listing: all that are in use, and as many of the others as may be, of each owner in turn. Where that are not
// all, those owners go first of whom processes run.
func (t *tree) descend(l *listing) {
	type candidate struct {
		inner
		round int // Of its owner's folders, which turn by turn go with those of others.
	}
	var others []candidate
	for owner, list := range l.others {
		slices.SortFunc(list, compareInner)
		most := maxUserFolders
		if owner == 0 {
			most = maxRootFolders
		}
		t.left += max(0, len(list)-most)
		for i, in := range list[:min(len(list), most)] {
			others = append(others, candidate{inner: in, round: i})
		}
	}
	room := maxFolders
	if l.depth > 0 {
		room = maxPodFolders
	}
	if len(others) > room {
		living := t.living()
		for i := range others {
			if !living[others[i].owner] {
				others[i].round += maxRootFolders
			}
		}
		slices.SortFunc(others, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.round, b.round), compareInner(a.inner, b.inner)) })
		t.left += len(others) - room
		others = others[:room]
	}
	for _, in := range l.used {
		t.enter(l, in)
	}
	for _, in := range others {
		t.enter(l, in.inner)
	}
}

// enter lists a folder. It stays open while files in it may be opened.
func (t *tree) enter(l *listing, in inner) {
	f, err := openFolder(l.of.fd(), in.name, filepath.Join(l.of.path, in.name))
	if err != nil {
		return // Another one, or none, by now: the next listing sees what.
	}
	t.changed[f.path] = f.changed
	before := len(t.files)
	_ = t.list(f, l.depth+1) // What of it was seen is used.
	if len(t.files) == before {
		f.close()
		return
	}
	t.folders = append(t.folders, f)
}
