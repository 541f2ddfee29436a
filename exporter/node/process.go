// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/culprit-project/culprit/exporter/iteration"
	"github.com/culprit-project/culprit/exporter/proc"
	"github.com/culprit-project/culprit/internal/mention"
	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

const (
	// recentPerComm is how many finished operations per communicator are kept for GET /api/v1/state.
	recentPerComm = 8
	// recentComms bounds for how many communicators of a process they are kept.
	recentComms = 256
)

// Process is one traced process. Its exported fields are only valid while the sampler's lock is held, that is, inside
// the functions that hand a *Process out.
type Process struct {
	// JobID, Rank and GPU are resolved from the claims; Rank is -1 and GPU empty when they cannot be told.
	JobID string
	Rank  int32
	GPU   string
	Host  string // The sampler's own.
	Place Place
	// Disputed says why the process is not believed to be this rank of this job; empty: it is.
	Disputed string

	Snap    trace.Snapshot
	Kernel  nodeapi.Kernel
	Totals  Totals
	Ops     *Operations
	Probes  *Probes
	Lanes   Lanes
	Overrun uint64 // Ring records lost to overwriting.
	// Iterations are the durations of the training iterations found so far.
	Iterations prometheus.Histogram
	Lost       bool // The file became unreadable.
	// AskedNS is when the state of its job was last asked for, by the sampler's clock; 0: never. Analyzers ask while an incident is open.
	AskedNS uint64

	path                    string
	dir                     *directory
	id                      fileID
	uid                     uint32 // Whom the kernel shows it to run as, else the owner of its file.
	claimed                 claimed
	slots                   int  // That the file had in use when it was read last.
	stands                  bool // Its claim was believed in the last round.
	file                    *trace.File
	device                  int32 // Of one rank of several: its GPU as CUDA numbers them in the process.
	sibling                 bool  // Another rank of the process has the file's name.
	members                 int   // Ranks of the process that are followed beside this one, itself included; 0: it is one rank.
	unlinked                bool
	deadSince               time.Time
	aliveAt                 time.Time // When it was last found alive.
	foundDead               bool      // It was killed before it was found, nobody knows when: deadSince is its last stamp.
	released, ringsReleased time.Time
	located                 time.Time // When Place was resolved.
	asked                   bool      // The kernel has been asked at least once.
	lockSeen                bool      // The writer was seen holding its file's lock.
	controlled              bool      // It has a control file of ours.
	abandoned               bool      // The probes were taken from it while it lives.

	heartbeat   uint64
	heartbeatAt time.Time
	nextDone    uint64
	nextLife    uint64
	worldRanks  int32 // Size of the communicator that the identity was derived from.
	calls       trace.Calls
	ledger      ledger
	watch       kernelWatch
	recent      map[commSlot]*recentRing
	lastRecent  [recentCache]*recentRing // By communicator slot: those used last.
	detector    *iteration.Detector
}

type commSlot struct{ index, generation uint32 }

func newProcess(path string, id fileID, f *trace.File) *Process {
	return &Process{
		path: path, id: id, uid: f.Owner(), file: f, JobID: unknownJob, Rank: -1, Snap: trace.Snapshot{Identity: f.Identity()},
		recent: map[commSlot]*recentRing{}, Ops: &Operations{}, Probes: &Probes{}, detector: iteration.New(),
		Iterations: prometheus.NewHistogram(iterationOptions),
	}
}

// iterationOptions keep few classic buckets: every one is a series on every rank. Sum and count tell the mean, native
// buckets the rest.
var iterationOptions = prometheus.HistogramOpts{
	Name: "culprit_nccl_iteration_seconds", Help: "Duration of the training iterations found in the operation sequence.",
	Buckets: []float64{0.1, 0.5, 2, 10, 60}, NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
	NativeHistogramMinResetDuration: time.Hour,
}

// File is the trace file's path in its directory. Of a process that is several ranks the first has that name, and the others the
// number of their GPU behind it.
func (p *Process) File() string {
	name := p.dir.name(p.path)
	if p.sibling {
		return name + "#" + strconv.Itoa(int(p.device))
	}
	return name
}

// Dead tells whether the process has ended, in whatever way.
func (p *Process) Dead() bool {
	switch p.Kernel.State {
	case nodeapi.ProcessGone, nodeapi.ProcessExited, nodeapi.ProcessZombie:
		return true
	}
	return false
}

// Killed tells whether the process has exited without orderly shutdown.
func (p *Process) Killed() bool { return p.Dead() && p.Snap.Status.ClosedNS == 0 }

// Calls gives the calls that make or end a communicator: those that the process is in, then those that have come back, oldest
// first. Nil where none was seen.
func (p *Process) Calls() []trace.Call { return p.calls.List() }

// UID is the user that the process runs as, in decimal.
func (p *Process) UID() string { return strconv.FormatUint(uint64(p.uid), 10) }

// Owner is whom the job of the process belongs to. With the job's id it tells jobs apart: a process can choose the id, and not this.
func (p *Process) Owner() string { return p.UID() }

// Verified tells whether the kernel knows the process that the file claims to be of.
func (p *Process) Verified() bool { return p.Kernel.Verified }

// silence is how long ago, at most, the process last wrote something.
func (p *Process) silence(now uint64) time.Duration {
	st := &p.Snap.Status
	return trace.Since(now, max(st.HeartbeatNS, st.ClosedNS, p.Snap.Identity.CreatedNS))
}

// identify resolves who the process is. Claims never change; what is derived from communicators follows the largest.
func (p *Process) identify(host string) {
	id := &p.Snap.Identity
	p.Host, p.GPU = host, ""
	if id.GPUIndex >= 0 {
		p.GPU = strconv.Itoa(int(id.GPUIndex))
	}
	var world *trace.Comm
	for i := range p.Snap.Comms {
		if c := &p.Snap.Comms[i]; world == nil || c.NRanks > world.NRanks || c.NRanks == world.NRanks && c.CreatedNS < world.CreatedNS {
			world = c
		}
	}
	kernels := p.watch.cgroup.SlurmJob
	switch {
	case kernels != "" && (id.JobID == "" || ofSlurm(id.JobID)):
		p.JobID = kernels + strings.TrimPrefix(id.JobID, slurmJob(id.JobID)) // The step stays.
	case id.JobID != "":
		p.JobID = id.JobID
	case id.SlurmJobID != "":
		p.JobID = id.SlurmJobID
	case world != nil && world.NRanks > p.worldRanks:
		p.JobID = "comm-" + world.ID.String()
	}
	p.JobID = mention.Plain(p.JobID) // Alerts carry it as a label, whoever sends them.
	switch {
	case id.Rank >= 0 || p.file.Device() >= 0: // One of several: what communicators tell of its number is in there.
		p.Rank = id.Rank
	case world != nil && world.NRanks > p.worldRanks:
		p.Rank = max(world.Rank, -1)
	}
	if world != nil {
		p.worldRanks = max(p.worldRanks, world.NRanks)
	}
}

// finished takes in an operation that has ended.
func (p *Process) finished(c *trace.Completion) {
	p.remember(c)
	if c.Flags&trace.OpAbandoned != 0 {
		return
	}
	p.Totals.AddKernel(c)
	nodes := int32(-1)
	if i := int(c.CommIndex); i < len(p.ledger.comms) && p.ledger.comms[i].generation == c.CommGeneration {
		nodes = p.ledger.comms[i].nodes
	}
	p.Ops.Add(c, nodes)
	p.Probes.Add(c)
	d, ok := p.detector.Observe(iteration.Op{
		Comm: uint64(c.CommIndex)<<32 | uint64(c.CommGeneration), Func: uint16(c.Func), Peer: c.Peer, Bytes: c.Bytes,
		EndNS: c.LeftNS, Barrier: c.Flags&trace.OpBarrier != 0,
	})
	if ok {
		p.Iterations.Observe(d.Seconds())
	}
}

// recentCache is how many communicators' rings are found without the map: a rank's operations go over a few.
const recentCache = 16

// recentRing holds the newest finished operations of one communicator.
type recentRing struct {
	slot commSlot
	list []trace.Completion
	next int // Oldest, once full.
}

func (r *recentRing) add(c *trace.Completion) {
	if len(r.list) < recentPerComm {
		r.list = append(r.list, *c)
		return
	}
	r.list[r.next] = *c
	r.next = (r.next + 1) % recentPerComm
}

// remember keeps the newest finished operations of each communicator.
func (p *Process) remember(c *trace.Completion) {
	slot := commSlot{c.CommIndex, c.CommGeneration}
	last := &p.lastRecent[c.CommIndex%recentCache]
	if ring := *last; ring != nil && ring.slot == slot {
		ring.add(c)
		return
	}
	ring := p.recent[slot]
	if ring == nil {
		if len(p.recent) >= recentComms {
			p.dropRecent()
		}
		if len(p.recent) >= recentComms {
			return
		}
		ring = &recentRing{slot: slot}
		p.recent[slot] = ring
	}
	*last = ring
	ring.add(c)
}

// dropRecent forgets operations of communicators that are not in the table any more.
func (p *Process) dropRecent() {
	live := make(map[commSlot]bool, len(p.Snap.Comms))
	for i := range p.Snap.Comms {
		live[commSlot{p.Snap.Comms[i].Index, p.Snap.Comms[i].Generation}] = true
	}
	for slot := range p.recent {
		if !live[slot] {
			delete(p.recent, slot)
		}
	}
	clear(p.lastRecent[:])
}

// claim is what the kernel is asked about.
func (p *Process) claim() proc.Claim {
	id := &p.Snap.Identity
	return proc.Claim{PID: int(int32(id.PID)), Namespace: id.PIDNamespace, StartTicks: id.StartTicks}
}
