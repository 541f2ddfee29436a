// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"slices"
)

// wholeProcess is the device of a File that shows all communicators of its process.
const wholeProcess = -1

// maxMembers is how many ranks a process may have; no machine has as many GPUs. A file that claims more is read as one rank.
const maxMembers = 64

// member is one of the ranks of a process that drives several GPUs.
type member struct {
	device      int32 // As CUDA numbers them in the process.
	gpuIndex    int32
	gpuUUID     string
	gpuPCIBusID string
	widest      int32 // Its rank in the widest communicator that has all ranks of the process; -1: there is none.
}

// ranks finds out which ranks a process has. A process with two members of one communicator is several ranks, one on each GPU that
// it has a communicator on: NCCL wants members of a communicator on GPUs of their own. So is one in which a thread for each GPU calls
// what communicators do there. One rank may use a second GPU by mistake, but then no communicator has it twice, and a thread of its
// calls on both.
type ranks struct {
	several  bool
	members  []member // By device.
	widest   CommKey  // The widest communicator seen that has all of them.
	homeless uint64   // Communicators that nobody knows the GPU of.
	outside  bool     // Some communicator has members in other processes.
	number   place    // Rank and size of all communicators that have one member here, where they agree; else 0.

	threads map[uint32]int32 // GPU by the thread that calls on it.
	shared  bool             // A thread calls on more than one.
}

// place is a communicator of the process, in use or ended.
type place struct {
	slot         uint32
	key          CommKey
	rank, device int32
	thread       uint32 // That last called an operation.
	calls        uint64
	named        bool
}

const (
	// neverLooked is what a File has looked at before its first look.
	neverLooked = -1
	// maxThreads bounds the threads that are told apart.
	maxThreads = 1024
)

// look takes in all communicators in the table. What was found before stays: they come and go.
func (f *File) look(places []place) {
	r := &f.ranks
	r.homeless = 0
	seen := make(map[CommKey]place, len(places))
	here := make(map[CommKey]int32, len(places)) // Members.
	for _, p := range places {
		if p.device < 0 {
			r.homeless++
			continue
		}
		if other, twice := seen[p.key]; twice && p.key.ID != 0 && other.rank != p.rank && other.device != p.device {
			r.several = true
		}
		seen[p.key] = p
		here[p.key]++
	}
	if !r.several {
		return
	}
	for _, p := range places {
		if p.device >= 0 {
			f.addMember(p)
		}
	}
	if len(r.members) > maxMembers {
		*r = ranks{shared: true}
		return
	}
	r.count(places, here)
}

// threadForEach says that more than one GPU has a thread of its own that calls on it; it remembers which threads have called where.
// Frameworks with one rank in a process name their communicators.
func (r *ranks) threadForEach(places []place) bool {
	called, several, named := int32(-1), false, false
	for _, p := range places {
		if p.device < 0 {
			return false
		}
		named = named || p.named
		if p.thread == 0 || p.calls == 0 || r.shared {
			continue
		}
		several = several || called >= 0 && called != p.device
		called = p.device
		if r.threads == nil {
			r.threads = map[uint32]int32{}
		}
		device, known := r.threads[p.thread]
		r.shared = known && device != p.device || len(r.threads) >= maxThreads
		r.threads[p.thread] = p.device
	}
	return several && !named && !r.shared
}

func (f *File) addMember(p place) {
	r := &f.ranks
	at, known := slices.BinarySearchFunc(r.members, p.device, func(m member, device int32) int { return cmp.Compare(m.device, device) })
	if known {
		return
	}
	w := &f.scratch.comm
	if !readSlot(f.comms, p.slot, w) || w.Device != p.device {
		return // Its slot is somebody else's by now: the next look will have that.
	}
	r.members = slices.Insert(r.members, at, member{
		device: p.device, gpuIndex: max(w.GPUIndex, -1), gpuUUID: text(w.GPUUUID[:]), gpuPCIBusID: text(w.GPUPCIBusID[:]), widest: -1,
	})
}

// count finds what tells the ranks' numbers: the widest communicator that all of them are in, and those across processes that each of
// them is in alone.
func (r *ranks) count(places []place, here map[CommKey]int32) {
	members := int32(len(r.members))
	for key, n := range here {
		if n == members && key.NRanks > r.widest.NRanks {
			r.widest = key
		}
	}
	r.outside, r.number = false, place{}
	agree := true
	for _, p := range places {
		at := slices.IndexFunc(r.members, func(m member) bool { return m.device == p.device })
		if at < 0 {
			continue
		}
		if p.key == r.widest {
			r.members[at].widest = max(p.rank, -1)
		}
		if p.key.NRanks <= here[p.key] {
			continue
		}
		r.outside = true
		if here[p.key] > 1 {
			continue
		}
		if r.number.key.NRanks == 0 {
			r.number = p
		}
		agree = agree && r.number.rank == p.rank && r.number.key.NRanks == p.key.NRanks
	}
	if !agree {
		r.number = place{}
	}
}

// identity makes of what the process says of itself what the rank on the device is. RANK and WORLD_SIZE count processes then: a
// communicator that spans them all has the ranks' numbers. Where there is none, processes are taken to have equally many.
func (r *ranks) identity(id Identity, device int32) Identity {
	at := slices.IndexFunc(r.members, func(m member) bool { return m.device == device })
	if at < 0 {
		return id
	}
	m, here := &r.members[at], int32(len(r.members))
	id.GPUIndex, id.GPUUUID, id.GPUPCIBusID = m.gpuIndex, m.gpuUUID, m.gpuPCIBusID
	world := r.widest.NRanks
	if m.widest >= 0 && int64(world) >= int64(here)*int64(max(id.WorldSize, 1)) && (id.WorldSize > 0 || world > here || !r.outside) {
		id.Rank, id.WorldSize = m.widest, world
		return id
	}
	if id.Rank < 0 && r.outside {
		// No launcher tells which process it is.
		if r.number.key.NRanks <= 0 || r.number.rank < 0 {
			id.WorldSize = -1
			return id
		}
		id.Rank, id.WorldSize = r.number.rank, r.number.key.NRanks
	}
	if id.WorldSize > 0 {
		id.WorldSize = multiplied(id.WorldSize, here)
	}
	id.Rank = multiplied(max(id.Rank, 0), here)
	if id.Rank >= 0 {
		id.Rank += int32(at)
	}
	return id
}

// multiplied is a claimed number times another; -1 where that is no number of ranks.
func multiplied(claimed, by int32) int32 {
	const most = 1 << 24
	if claimed > most {
		return -1
	}
	return claimed * by
}

// Devices lists the GPUs of a process that is several ranks, in order, as the last Snapshot has shown it; none of any other.
func (f *File) Devices() []int32 {
	devices := make([]int32, len(f.ranks.members))
	for i := range f.ranks.members {
		devices[i] = f.ranks.members[i].device
	}
	return devices
}

// Rank gives a File that shows the rank on one GPU alone, as a process of its own. It has to be closed, too.
func (f *File) Rank(device int32) *File {
	own := *f
	own.intern, own.own, own.ranks = map[[16]byte]string{}, nil, ranks{several: f.ranks.several}
	own.device, own.looked = device, neverLooked
	*own.users++
	return &own
}

// Device is the GPU of a File that shows one rank of several; -1: it shows the whole process.
func (f *File) Device() int32 { return f.device }

// theirs says that the communicator in a slot is of another rank than the one that the file shows.
func (f *File) theirs(comm uint32) bool {
	return f.device != wholeProcess && (uint64(comm) >= uint64(len(f.own)) || !f.own[comm])
}
