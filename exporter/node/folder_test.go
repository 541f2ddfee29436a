// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/proc/proctest"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// own is the name of the folder of the user that runs the test.
func own() string { return "u" + strconv.Itoa(os.Geteuid()) }

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of two users")
	}
}

func (r *rig) names() []string {
	names := []string{}
	for _, p := range r.processes() {
		names = append(names, p.File)
	}
	slices.Sort(names)
	return names
}

func (r *rig) wantNames(want ...string) {
	r.t.Helper()
	if got := r.names(); !slices.Equal(got, want) {
		r.t.Errorf("followed %v, want %v", got, want)
	}
}

func (r *rig) mustDo(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) in(names ...string) string { return filepath.Join(append([]string{r.dir}, names...)...) }

// Files lie in their user's folder; those of older plugins in the root. Both are followed, and of two files with one name each.
func TestFoldersAndRoot(t *testing.T) {
	r := newRig(t, nil)
	for rank := range int32(3) {
		r.procs.Put(proctest.Process{PID: 4000 + int(rank), StartTicks: 50})
	}
	r.file("a.trace", identity(0))
	r.file(own()+"/a.trace", identity(1))
	r.file(own()+"-5eed/b.trace", identity(2))
	r.after(0)
	r.wantNames("a.trace", own()+"-5eed/b.trace", own()+"/a.trace")

	// What comes and goes in a folder is noticed, as is the folder's own end.
	r.after(time.Minute)
	r.file(own()+"/c.trace", identity(3))
	r.sampler.Round()
	r.wantNames("a.trace", own()+"-5eed/b.trace", own()+"/a.trace", own()+"/c.trace")
	r.mustDo(os.RemoveAll(r.in(own() + "-5eed")))
	r.procs.Remove(4002)
	r.after(time.Second)
	r.after(11 * time.Minute)
	r.wantNames("a.trace", own()+"/a.trace")
	if n := r.sampler.ReadErrors()[trace.ReasonOwner]; n != 0 {
		t.Errorf("%d files refused", n)
	}
}

// Names that the plugin does not give are no users' folders, and nothing below a user's folder is looked at.
func TestOtherFoldersAreNotLookedInto(t *testing.T) {
	r := newRig(t, nil)
	for i, name := range []string{"users/a.trace", "u/a.trace", "u1x/a.trace", ".u0/a.trace", own() + "/u0/a.trace", own() + "/deep/a.trace"} {
		r.file(name, identity(int32(i)))
	}
	r.after(0)
	r.wantNames()
}

// A pod has a root of its own in the node's.
func TestPodsFolder(t *testing.T) {
	needRoot(t)
	r := newRig(t, nil)
	r.file("0a1b-pod/u0/a.trace", identity(0))
	r.after(0)
	r.wantNames() // It belongs to somebody.
	r.mustDo(node.Prepare(r.in("0a1b-pod")))
	r.after(10 * time.Second)
	r.wantNames("0a1b-pod/u0/a.trace")
}

// Whoever can write to a folder lays a file of another user there. It is left alone and counted.
func TestForeignFileInAFolder(t *testing.T) {
	needRoot(t)
	r := newRig(t, nil)
	w := r.file("u1001/a.trace", identity(0))
	r.file("u1001/b.trace", identity(1)) // Root's.
	r.mustDo(os.Chown(w.Path(), 1001, -1))
	r.mustDo(os.Chown(r.in("u1001"), 1001, -1))
	r.after(0)
	r.after(time.Minute)
	r.wantNames("u1001/a.trace")
	if n := r.sampler.ReadErrors()[trace.ReasonOwner]; n != 1 {
		t.Errorf("%d files refused, want 1", n)
	}
	if list := r.sampler.Unread(); len(list) != 1 || list[0].File != "u1001/b.trace" {
		t.Errorf("unread %+v", list)
	}
}

// Links in place of a folder, of the root or of a file lead nowhere.
func TestFolderLinksAreNotFollowed(t *testing.T) {
	elsewhere := newRig(t, nil)
	elsewhere.file("a.trace", identity(0))
	r := newRig(t, nil)
	r.mustDo(os.MkdirAll(r.dir, 0o755))
	r.mustDo(os.Symlink(elsewhere.dir, r.in("u77")))
	r.mustDo(os.Symlink(r.in("u77"), r.in("u78-1")))
	r.after(0)
	r.after(time.Minute)
	r.wantNames()
	if n := r.sampler.ReadErrors()[trace.ReasonHostile]; n != 2 {
		t.Errorf("%d links refused, want 2", n)
	}

	link := newRig(t, nil)
	link.mustDo(os.Symlink(elsewhere.dir, link.dir))
	link.after(0)
	link.after(time.Minute)
	link.wantNames()
	if n := strings.Count(link.logs.String(), "Looking at trace directory"); n != 1 {
		t.Errorf("%d lines in the log, want 1:\n%s", n, link.logs.String())
	}
}

// A user makes very many folders. Another's is looked into all the same, and so is one of its own that is in use.
func TestFoldersAreShared(t *testing.T) {
	needRoot(t)
	r := newRig(t, nil)
	give := func(uid int, names ...string) {
		for _, name := range names {
			r.mustDo(os.MkdirAll(filepath.Dir(r.in(name)), 0o755))
			r.mustDo(os.Chown(r.in(name), uid, -1))
		}
	}
	r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50, UID: 1001})
	r.file("u9-zz/used.trace", identity(0))
	give(1001, "u9-zz/used.trace", "u9-zz")
	r.after(0)
	for i := range 1000 {
		r.mustDo(os.Mkdir(r.in(fmt.Sprintf("u9-%04d", i)), 0o755))
		give(1001, fmt.Sprintf("u9-%04d", i))
	}
	r.file("u1002/a.trace", identity(1))
	give(1002, "u1002/a.trace", "u1002")
	r.after(time.Minute)
	r.wantNames("u1002/a.trace", "u9-zz/used.trace")
}

// eventually looks at the directory until a rank of each file is followed.
func (r *rig) eventually(want ...string) {
	r.t.Helper()
	for range 200 {
		got := r.names()
		if slices.Equal(got, want) {
			return
		}
		r.after(6 * time.Second)
	}
	r.wantNames(want...)
}

// own gives files and folders to a user.
func (r *rig) own(uid int, names ...string) {
	r.t.Helper()
	for _, name := range names {
		r.mustDo(os.Chown(r.in(name), uid, -1))
	}
}

// job has a process of a user for each of its folders, with a file in it.
func (r *rig) job(uid int, folders ...string) (files []string) {
	r.t.Helper()
	for i, folder := range folders {
		id := identity(int32(i))
		id.JobID, id.PID = fmt.Sprint("job of ", uid), uint32(10_000*uid+i)
		r.procs.Put(proctest.Process{PID: int(id.PID), StartTicks: 50, UID: uid})
		r.file(folder+"/a.trace", id)
		r.own(uid, folder+"/a.trace", folder)
		files = append(files, folder+"/a.trace")
	}
	slices.Sort(files)
	return files
}

// A stranger takes the name of a user's folder and fills the root, so that each process of the user's job has a folder of its own. All are
// followed, and stay so while the stranger makes more.
func TestFoldersOfEachProcess(t *testing.T) {
	needRoot(t)
	r := newRig(t, nil)
	r.mustDo(os.MkdirAll(r.in("u7"), 0o755))
	r.own(1001, "u7")
	for i := range 9000 {
		r.mustDo(os.WriteFile(r.in(fmt.Sprintf("%04d.trace", i)), nil, 0o600))
		r.own(1001, fmt.Sprintf("%04d.trace", i))
	}
	var folders []string
	for i := range 48 { // More than are looked into of a user at a time.
		folders = append(folders, fmt.Sprintf("u7-%016x", i*i*7919))
	}
	files := r.job(7, folders...)
	r.eventually(files...)
	for i := range 2000 {
		r.mustDo(os.Mkdir(r.in(fmt.Sprintf("u1001-%04d", i)), 0o755))
		r.own(1001, fmt.Sprintf("u1001-%04d", i))
	}
	r.after(time.Minute)
	r.wantNames(files...)
}

// Many users have folders, such as those that a user namespace gives one person. Those of whom processes run go first.
func TestFoldersOfManyUsers(t *testing.T) {
	needRoot(t)
	r := newRig(t, nil)
	for i := range 3000 {
		name := fmt.Sprintf("u%d", 100_000+i)
		r.mustDo(os.MkdirAll(r.in(name), 0o755))
		r.own(100_000+i, name)
	}
	files := r.job(200_000, "u200000", "u200000-7", "u200000-00000000000000ff")
	r.after(0)
	r.wantNames(files...)
	for i := range 2000 { // Root may have any in a pod's folder.
		name := fmt.Sprintf("pod/u%d", 100_000+i)
		r.mustDo(os.MkdirAll(r.in(name), 0o755))
		r.own(100_000+i, name)
	}
	r.mustDo(node.Prepare(r.in("pod")))
	r.mustDo(os.MkdirAll(r.in("z-pod"), 0o755))
	more := r.job(5, "z-pod/u5")
	r.mustDo(node.Prepare(r.in("z-pod")))
	r.after(time.Minute)
	r.eventually(slices.Concat(files, more)...)
}

// The root's listing ends before the folders of users of whom processes run. They are tried by their names, and so is what is followed.
func TestNamesBeyondTheListing(t *testing.T) {
	needRoot(t)
	r := newRig(t, nil)
	random := r.job(8, "u8-00000000000000aa")
	r.after(0)
	node.ListAtMost(t, 300)
	for i := range 1000 {
		r.mustDo(os.WriteFile(r.in(fmt.Sprintf("%04d.trace", i)), nil, 0o600))
		r.own(1001, fmt.Sprintf("%04d.trace", i))
	}
	files := slices.Concat(r.job(7, "u7", "u7-1", "u7-15"), random)
	slices.Sort(files)
	r.after(time.Minute)
	r.wantNames(files...)
	r.after(time.Minute)
	for _, p := range r.processes() {
		if p.Kernel.State != nodeapi.ProcessRunning {
			t.Errorf("%s: %s", p.File, p.Kernel.State)
		}
	}
}

// A user makes very many files. What is held of them stays small, its own file that is followed stays, and another's is found.
func TestVeryManyFilesTakeLittleMemory(t *testing.T) {
	needRoot(t)
	r := newRig(t, nil)
	give := func(uid int, names ...string) {
		for _, name := range names {
			r.mustDo(os.Chown(r.in(name), uid, -1))
		}
	}
	r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50, UID: 1001})
	r.file("u1001/zz.trace", identity(0))
	give(1001, "u1001/zz.trace", "u1001")
	r.after(0)
	const many = 1500
	for i := range many {
		r.mustDo(os.WriteFile(r.in("u1001", fmt.Sprintf("%05d.trace", i)), nil, 0o600))
		give(1001, fmt.Sprintf("u1001/%05d.trace", i))
	}
	r.file("u1002/a.trace", identity(1))
	give(1002, "u1002/a.trace", "u1002")
	r.after(time.Minute)
	r.wantNames("u1001/zz.trace", "u1002/a.trace")
	if n := node.Held(r.dir, r.in("u1001", "zz.trace")); n < 2 || n > 1100 {
		t.Errorf("%d files are held of %d", n, many)
	}
	if r.sampler.LeftOut() == 0 {
		t.Error("nothing says that files are left out")
	}
}

// While events are asked for, the job's user puts a link in place of its folder. Root must not write behind it.
func TestControlIsWrittenBesideTheFile(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(r *rig, elsewhere string)
		wrote  bool
	}{
		{"as it was", func(*rig, string) {}, true},
		{"a link", func(r *rig, elsewhere string) {
			r.mustDo(os.Rename(r.in(own()), r.in("away")))
			r.mustDo(os.Symlink(elsewhere, r.in(own())))
		}, false},
		{"another folder", func(r *rig, _ string) {
			r.mustDo(os.Rename(r.in(own()), r.in("away")))
			r.mustDo(os.Mkdir(r.in(own()), 0o755))
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.procs.Put(proctest.Process{PID: 4000, StartTicks: 50})
			r.file(own()+"/a.trace", identity(0))
			r.after(0)
			elsewhere := t.TempDir()
			tt.change(r, elsewhere)
			asked := r.sampler.SetEvents(node.Query{}, "-proxystep")
			if len(asked) != 1 || (asked[0].Error == "") != tt.wrote {
				t.Errorf("%+v", asked)
			}
			if left, err := os.ReadDir(elsewhere); err != nil || len(left) != 0 {
				t.Errorf("written behind the link: %v, %v", left, err)
			}
			if left, err := os.ReadDir(r.in(own())); err != nil && tt.wrote || len(left) != 0 && !tt.wrote {
				t.Errorf("%v, %v", left, err)
			}
		})
	}
}

// A job that closes all its descriptors has its file mapped, and with it the lock: it is not thereby dead, although nothing else of
// it can be seen.
func TestDescriptorsAreClosed(t *testing.T) {
	host := newRig(t, nil)
	host.procs.Put(proctest.Process{PID: 1, Namespace: 999})
	r := newRig(t, func(o *node.Options) { o.ProcFS = host.procs.Root })
	id := identity(0)
	id.PIDNamespace = 111
	w := r.file("a.trace", id)
	fd, err := unix.Open(w.Path(), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	r.mustDo(err)
	r.mustDo(unix.Flock(fd, unix.LOCK_SH))
	mapped, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	r.mustDo(err)
	r.after(0)
	r.mustDo(unix.Close(fd))
	r.after(time.Second)
	r.after(time.Minute)
	if p := r.only(); p.Kernel.State != nodeapi.ProcessUnknown {
		t.Errorf("with its descriptors closed: %q", p.Kernel.State)
	}
	r.mustDo(unix.Munmap(mapped))
	r.after(time.Second)
	if p := r.only(); p.Kernel.State != nodeapi.ProcessGone {
		t.Errorf("after its end: %q", p.Kernel.State)
	}
}

func TestPrepare(t *testing.T) {
	needRoot(t)
	check := func(path string) {
		t.Helper()
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil || st.Mode != unix.S_IFDIR|unix.S_ISVTX|0o777 || st.Uid != 0 {
			t.Errorf("%s: mode %o of user %d, %v", path, st.Mode, st.Uid, err)
		}
	}
	dir := t.TempDir()
	fresh, taken, link := filepath.Join(dir, "fresh"), filepath.Join(dir, "taken"), filepath.Join(dir, "link")
	if err := node.Prepare(fresh); err != nil {
		t.Error(err)
	}
	check(fresh)
	if err := os.Mkdir(taken, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(taken, 1001, 1001); err != nil {
		t.Fatal(err)
	}
	if err := node.Prepare(taken); err != nil {
		t.Error(err)
	}
	check(taken)
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := node.Prepare(link); err == nil {
		t.Error("a link is followed")
	}
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() == 0o777 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	if err := node.Prepare(filepath.Join(dir, "absent", "traces")); err == nil {
		t.Error("prepared without a parent")
	}
}
