// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build pyspy && fuse

package app

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/analyzer/rca"
)

// TestRealMount has real processes wait for a real file system whose server has stopped answering reads and writes: rank, mount, file system and
// line are named at once. It mounts by FUSE, which takes root.
func TestRealMount(t *testing.T) {
	for name, tc := range map[string]stays{
		"save": {`
def save_checkpoint():
    with open(sys.argv[1] + "/step-100.pt", "r+b", buffering=0) as f:
        ready()
        f.write(bytes(4096))
save_checkpoint()`, true, notEntered, rca.CauseStorage, []string{"in write of ", "/step-100.pt on ", "(fuse.stalled of nas1:/ckpt)", "in save_checkpoint at save_checkpoint (train.py:", "Check the mount "}},
		"loader": {`
def next_batch():
    with open(sys.argv[1] + "/shard-7", "rb", buffering=0) as f:
        ready()
        f.read(4096)
next_batch()`, true, notEntered, rca.CauseStorage, []string{"in read of ", "/shard-7 on ", "(fuse.stalled of nas1:/ckpt)", "in next_batch (train.py:"}},
		"loader's worker": {`
import os
def next_batch():
    f = open(sys.argv[1] + "/shard-7", "rb", buffering=0)
    child = os.fork()
    if child == 0:
        f.read(4096)
    ready()
    import subprocess
    p = subprocess.Popen.__new__(subprocess.Popen)
    p.pid, p.returncode, p.args, p._waitpid_lock, p._child_created = child, None, [], threading.Lock(), True
    p.wait()
next_batch()`, true, notEntered, rca.CauseStorage, []string{"in read of ", "/shard-7 on ", "in a subprocess at next_batch (train.py:"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			staysAway(t, &tc, mountStalled(t))
		})
	}
}

// Requests of the kernel's FUSE protocol that are known here, and sizes in bytes.
const (
	fuseLookup, fuseForget, fuseGetattr, fuseSetattr, fuseOpen, fuseRead, fuseWrite = 1, 2, 3, 4, 14, 15, 16

	fuseInit, fuseOpendir, fuseInterrupt, fuseBatchForget = 26, 27, 36, 42

	fuseHeader  = 40
	fuseMostMsg = 1 << 17
)

// mountStalled mounts a file system that has a file of every name and never answers who reads or writes one.
func mountStalled(t *testing.T) string {
	t.Helper()
	dev, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "ckpt")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", dev)
	if err := unix.Mount("nas1:/ckpt", dir, "fuse.stalled", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		serveStalled(dev)
	}()
	t.Cleanup(func() { // Which ends all that wait, and then the server.
		_ = unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH)
		<-served
		unix.Close(dev)
	})
	return dir
}

func serveStalled(dev int) {
	request := make([]byte, fuseMostMsg)
	for {
		n, err := unix.Read(dev, request)
		switch {
		case err == unix.EINTR, err == unix.ENOENT:
			continue
		case err != nil || n < fuseHeader:
			return // It is not mounted any more.
		}
		code, unique, node := binary.LittleEndian.Uint32(request[4:]), binary.LittleEndian.Uint64(request[8:]), binary.LittleEndian.Uint64(request[16:])
		switch code {
		case fuseRead, fuseWrite, fuseForget, fuseBatchForget: // The first two stay without an answer, the others have none.
		case fuseInterrupt: // Whoever waits was killed.
			reply(dev, binary.LittleEndian.Uint64(request[fuseHeader:]), -int32(unix.EINTR), nil)
		case fuseInit:
			reply(dev, unique, 0, words32(7, 31, 1<<16, 0, 0, 1<<16, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0))
		case fuseLookup:
			reply(dev, unique, 0, append(words32(2, 0, 0, 0, 60, 0, 60, 0, 0, 0), attributes(2)...))
		case fuseGetattr, fuseSetattr:
			reply(dev, unique, 0, append(words32(60, 0, 0, 0), attributes(node)...))
		case fuseOpen, fuseOpendir:
			const direct = 1 // Each call goes to the server.
			reply(dev, unique, 0, words32(1, 0, direct, 0))
		default:
			reply(dev, unique, -int32(unix.ENOSYS), nil)
		}
	}
}

// attributes are those of the folder, node 1, or of a file.
func attributes(node uint64) []byte {
	mode := uint32(unix.S_IFREG | 0o666)
	if node == 1 {
		mode = unix.S_IFDIR | 0o777
	}
	return words32(uint32(node), 0, 1<<20, 0, 1<<11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
}

func words32(words ...uint32) []byte {
	var out []byte
	for _, w := range words {
		out = binary.LittleEndian.AppendUint32(out, w)
	}
	return out
}

func reply(dev int, unique uint64, code int32, body []byte) {
	var b bytes.Buffer
	b.Write(words32(uint32(16+len(body)), uint32(code)))
	b.Write(binary.LittleEndian.AppendUint64(nil, unique))
	b.Write(body)
	_, _ = unix.Write(dev, b.Bytes()) // Who asked may be gone.
}
