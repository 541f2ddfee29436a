// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/trace/internal/wire"
)

// Bounds of what a file may claim. They are far above what the shim makes and keep a hostile file's cost small.
const (
	// MaxFileBytes is the largest file that Open takes.
	MaxFileBytes = 256 << 20
	maxEntry     = 1 << 14
	maxComms     = 1 << 12
	maxSlots     = 1 << 18 // Operations and flows each.
	maxRing      = 1 << 20
	// maxRead is how many slots of a table are read at most.
	maxRead = 1 << 16
)

// Suffix is how trace files' names end.
const Suffix = wire.Suffix

// The layout is that of 64-bit machines.
const _ = uint(unsafe.Sizeof(uintptr(0)) - 8)

// File is an open trace file, mapped read-only. It is not safe for concurrent use. What is read from it is a claim of
// the process that wrote it.
type File struct {
	data   []byte
	ident  Identity
	comms  table
	ops    table
	flows  table
	done   table
	life   table
	qps    table
	moved  table // Transfers.
	intern map[[16]byte]string

	device int32 // Of the one rank that is shown, else wholeProcess.
	ranks  ranks
	looked int    // Communicators in the table when they were last looked at for ranks.
	own    []bool // By slot: communicators of the rank that is shown.

	// Slots are copied here first. On the stack each would be an allocation, as it is handed to functions.
	scratch struct {
		comm wire.Comm
		flow wire.Flow
	}

	most  uint64 // Records that a read of a ring takes; 0: all.
	fd    int
	users *int // Files of this mapping.
	owner uint32
}

// table is one validated section: base+count*entry lies inside the mapping.
type table struct {
	base  unsafe.Pointer
	entry uintptr
	count uint32
}

func (t table) slot(i uint32) unsafe.Pointer { return unsafe.Add(t.base, uintptr(i)*t.entry) }

// Open maps a trace file for reading and checks its header. The file must be a regular one; a symbolic link is not
// followed and a FIFO does not block. Errors are *Error; one that wraps ErrNotReady may vanish by itself soon.
func Open(path string) (*File, error) { return OpenAt(unix.AT_FDCWD, path) }

// OpenAt is Open for a file in an open directory.
func OpenAt(dir int, name string) (*File, error) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return nil, failf(ReasonOpen, "trace files are little endian and this machine is not")
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, failf(ReasonHostile, "opening trace file: is a symbolic link")
	case errors.Is(err, unix.ENXIO):
		return nil, failf(ReasonHostile, "opening trace file: is not a regular file")
	case err != nil:
		return nil, failf(ReasonOpen, "opening trace file: %w", err)
	}
	return openDescriptor(fd)
}

// OpenFile is Open for an open file, of which it keeps a descriptor of its own.
func OpenFile(file *os.File) (*File, error) {
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, failf(ReasonOpen, "opening trace file: %w", err)
	}
	return openDescriptor(fd)
}

func openDescriptor(fd int) (*File, error) {
	f, err := mapFile(fd)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	if err := f.guarded(f.parse); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// mapFile checks what kind of file fd is and maps it. On error fd stays the caller's.
func mapFile(fd int) (*File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, failf(ReasonOpen, "reading the trace file's size: %w", err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, failf(ReasonHostile, "opening trace file: is not a regular file")
	case st.Size == 0:
		return nil, failf(ReasonHeader, "reading trace header: empty file: %w", ErrNotReady)
	case st.Size < wire.HeaderBytes:
		return nil, failf(ReasonHeader, "reading trace header: file has %d bytes, a header %d", st.Size, wire.HeaderBytes)
	case st.Size > MaxFileBytes:
		return nil, failf(ReasonLayout, "trace file has %d bytes, more than %d", st.Size, MaxFileBytes)
	}
	data, err := unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, failf(ReasonOpen, "mapping trace file: %w", err)
	}
	return &File{
		data: data, fd: fd, users: new(1), owner: st.Uid,
		device: wholeProcess,
		intern: map[[16]byte]string{},
	}, nil
}

// Close unmaps the file. The File must not be used afterwards.
func (f *File) Close() error {
	if f.data == nil {
		return nil
	}
	var err error
	if *f.users--; *f.users == 0 {
		err = errors.Join(unix.Munmap(f.data), unix.Close(f.fd))
	}
	*f = File{}
	if err != nil {
		return fmt.Errorf("unmapping trace file: %w", err)
	}
	return nil
}

// WriterHolds tells whether a process holds the lock that a writer takes on its file for as long as it lives. It needs
// no view of the writer's PID namespace. Writers on filesystems without locks do not hold it.
func (f *File) WriterHolds() bool {
	if f.data == nil || unix.Flock(f.fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return f.data != nil
	}
	_ = unix.Flock(f.fd, unix.LOCK_UN)
	return false
}

// Identity is what the process says about itself. It does not change while the file is open; that of one rank of several is in
// its Snapshot.
func (f *File) Identity() Identity { return f.ident }

// Owner is the user that owns the file: the one that the writer runs as.
func (f *File) Owner() uint32 { return f.owner }

// Release tells the kernel that the file's pages need not stay mapped here: they count as this process's resident
// memory otherwise. The next read maps them again.
func (f *File) Release() { f.release(0, uint64(len(f.data))) }

// ReleaseRings is Release for what is hardly read a second time. Mapping the tables again costs more than reading them.
func (f *File) ReleaseRings() {
	if f.data == nil {
		return
	}
	for _, ring := range []table{f.done, f.life, f.moved} {
		if ring.count > 0 {
			// Sections begin on pages of their own.
			start := uint64(uintptr(ring.base) - uintptr(unsafe.Pointer(&f.data[0])))
			f.release(start, start+uint64(ring.count)*uint64(ring.entry))
		}
	}
}

func (f *File) release(start, end uint64) {
	if start < end {
		// Advice only: a refusal changes nothing.
		_ = unix.Madvise(f.data[start:end], unix.MADV_DONTNEED)
	}
}

// parse checks the header and section table and copies the identity.
func (f *File) parse() error {
	var h wire.Header
	copyWords(&h, unsafe.Pointer(&f.data[0]), unsafe.Sizeof(h))
	if h.Magic == [8]byte{} {
		return failf(ReasonHeader, "reading trace header: %w", ErrNotReady)
	}
	if string(h.Magic[:]) != wire.Magic {
		return failf(ReasonHeader, "reading trace header: wrong magic %q", h.Magic[:])
	}
	if h.VersionMajor != wire.Major {
		return failf(ReasonHeader, "reading trace header: version %d.%d, want %d.x", h.VersionMajor, h.VersionMinor, wire.Major)
	}
	if h.HeaderBytes != wire.HeaderBytes {
		return failf(ReasonHeader, "reading trace header: header of %d bytes, want %d", h.HeaderBytes, wire.HeaderBytes)
	}
	if h.FileBytes > uint64(len(f.data)) {
		return failf(ReasonLayout, "reading trace header: claims %d bytes, file has %d", h.FileBytes, len(f.data))
	}
	if h.SectionCount > wire.MaxSections {
		return failf(ReasonLayout, "reading trace header: %d sections, at most %d", h.SectionCount, wire.MaxSections)
	}
	for i, s := range h.Sections[:h.SectionCount] {
		if err := f.addSection(s); err != nil {
			return failf(ReasonLayout, "reading trace section %d of kind %d: %w", i, s.Kind, err)
		}
	}
	f.ident = identity(&h)
	return nil
}

// addSection validates one section and remembers it. Sections of unknown kind are ignored.
func (f *File) addSection(s wire.Section) error {
	var t *table
	var entry uintptr
	var limit uint32
	switch s.Kind {
	case wire.SectionComms:
		t, entry, limit = &f.comms, unsafe.Offsetof(wire.Comm{}.Device), maxComms // As long as version 1.2 had it.
	case wire.SectionOps:
		t, entry, limit = &f.ops, unsafe.Offsetof(wire.Op{}.GPUReadyNS), maxSlots // As long as version 1.3 had it.
	case wire.SectionFlows:
		t, entry, limit = &f.flows, unsafe.Sizeof(wire.Flow{}), maxSlots
	case wire.SectionCompletions:
		t, entry, limit = &f.done, unsafe.Offsetof(wire.Completion{}.GPUReadyNS), maxRing // As long as version 1.3 had it.
	case wire.SectionLifecycle:
		t, entry, limit = &f.life, unsafe.Sizeof(wire.Lifecycle{}), maxRing
	case wire.SectionQPs:
		t, entry, limit = &f.qps, unsafe.Sizeof(wire.QP{}), maxSlots
	case wire.SectionTransfers:
		t, entry, limit = &f.moved, unsafe.Sizeof(wire.Transfer{}), maxRing
	default:
		return nil
	}
	size := uint64(len(f.data))
	switch {
	case t.base != nil:
		return errors.New("appears twice")
	case s.Count == 0:
		return nil
	case s.Count > limit:
		return fmt.Errorf("%d entries, at most %d", s.Count, limit)
	case uintptr(s.EntryBytes) < entry || s.EntryBytes > maxEntry || s.EntryBytes%8 != 0:
		// Records only ever grow: a shorter one is none that a version 1 writer makes.
		return fmt.Errorf("entries of %d bytes, want %d or a few more", s.EntryBytes, entry)
	case s.Offset%wire.SectionAlign != 0 || s.Offset < wire.HeaderBytes || s.Offset >= size:
		return fmt.Errorf("offset %d in a file of %d bytes", s.Offset, size)
	case uint64(s.EntryBytes)*uint64(s.Count) > size-s.Offset:
		return fmt.Errorf("%d entries of %d bytes at %d end beyond the file's %d bytes", s.Count, s.EntryBytes, s.Offset, size)
	}
	*t = table{base: unsafe.Pointer(&f.data[s.Offset]), entry: uintptr(s.EntryBytes), count: s.Count}
	return nil
}

func identity(h *wire.Header) Identity {
	return Identity{
		PID:            h.PID,
		PIDNamespace:   h.PIDNamespace,
		StartTicks:     h.StartTicks,
		Rank:           max(h.Rank, -1),
		WorldSize:      max(h.WorldSize, -1),
		LocalRank:      max(h.LocalRank, -1),
		NodeRank:       max(h.NodeRank, -1),
		GPUIndex:       max(h.GPUIndex, -1),
		CreatedNS:      h.CreatedNS,
		CreatedRealNS:  h.CreatedRealNS,
		BootID:         text(h.BootID[:]),
		Hostname:       text(h.Hostname[:]),
		ProcessName:    text(h.ProcessName[:]),
		JobID:          text(h.JobID[:]),
		SlurmJobID:     text(h.SlurmJobID[:]),
		SlurmStepID:    text(h.SlurmStepID[:]),
		PodName:        text(h.PodName[:]),
		PodNamespace:   text(h.PodNamespace[:]),
		PodUID:         text(h.PodUID[:]),
		ContainerName:  text(h.ContainerName[:]),
		GPUUUID:        text(h.GPUUUID[:]),
		GPUPCIBusID:    text(h.GPUPCIBusID[:]),
		VisibleDevices: text(h.VisibleDevices[:]),
		ShimVersion:    text(h.ShimVersion[:]),
		Address:        text(h.Address[:]),
		WriterABI:      h.WriterABI,
		Capabilities:   h.Capabilities,
	}
}
