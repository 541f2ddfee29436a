// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package words

import "strings"

// Texts of verdicts. A text with verbs has a comment that names its arguments; the test renders it with an example of each.

// Sentences about jobs that stand still.
const (
	NotCalled       = "%[1]s %[2]s not called %[3]s; %[6]s. %[5]s%[4]s."                                                                                    // Ranks, have, op, age, waiting, note
	AloneAhead      = "%s alone %s inside %s%s. %s %s not called it; either this is one call too many, or something holds up all others."                   // Ranks, are, op, age, Ranks, have
	Died            = "%s: %s."                                                                                                                             // Who, note
	RanksOfProcess  = "%s (%s, process %d)"                                                                                                                 // Ranks, host, pid
	DiedInside      = "%s: %s. %s in %s%s."                                                                                                                 // Who, note, waiting, op, age
	Flawed          = "%s %s. %s%s."                                                                                                                        // Who, flaw, waiting, age
	FlawedYet       = "%[1]s %[2]s; %[5]s. %[3]s%[4]s."                                                                                                     // Who, flaw, waiting, age, note
	LinkStalled     = "The link between %s and %s does not deliver. The evidence does not show which end is to blame. %s%s."                                // who, others, waiting, age
	StillMoves      = "Others wait for %s, which still makes progress: it is slow, not stuck."                                                              // who
	GPUsSilent      = "The GPUs of %s have given no data for %s%s, while other GPUs are inside it. One of them still computes or has stopped."              // ranks, op, age
	HostStalled     = "%s on %s are inside %s%s, and the data stops between them. One of these GPUs or an NVLink is to blame; the flows do not show which." // Ranks, host, op, age
	HostStands      = "On %s the data of %s has not moved%s. One of the GPUs of %s or an NVLink is to blame; the flows do not show which."                  // host, op, age, ranks
	SeenAlone       = "%s is the only rank seen inside %s%s, and nothing shows whom it waits for."                                                          // Who, op, age
	AllAlike        = "All %s are inside %s%s and look alike. There is not enough evidence to name one."                                                    // members, op, age
	Unexplained     = "%s stand still. The cause is not visible in this evidence."                                                                          // Count
	TooWeak         = " This is not enough evidence to name anybody."
	AlsoFound       = " Also found: %s."                             // others
	BlastRadius     = " %s of %s stand still."                       // number, count
	Disagreement    = "Ranks disagree on the %s at place %d of %s: " // field, place, comm
	EvenSplit       = ". Even split: the evidence does not show which side is wrong."
	OtherOrder      = "%s called %s on %s, and the others called %s: one operation too many or too few." // Ranks, called, comm, else
	OtherCall       = "%s called %s at place %d of %s where the others called %s (%s differs)."          // Ranks, called, place, comm, else, field
	Deadlock        = "Deadlock: "
	EachWaits       = ". Each side waits for the other."
	DiedTogether    = "All %d observed processes died at about the same time, and the job had not stood still before. The evidence does not show which died first." // n
	JobEnds         = "The job is ending: most of its processes have exited in an orderly way, and nobody waits."
	HalfOf          = "the %s that rank %d's %s needs" // function, rank, op
	BytesOf         = "%s of %d bytes"                 // function, n
	CallAsOperation = "%s number %d as operation %d"   // function, n, n
)

// Sentences about waiting that ends only at ranks which were not seen.
const (
	RivalOdd       = "%s %s; %s. The other members of %s were not seen."                                                                                                                                  // Who, odd, waiters, comm
	Rivals         = "%s for %s, which were not seen, or for %s, whose neighbours moved past this point. There is not enough evidence to name one."                                                       // waiters, ranks, others
	HostUnobserved = "%s for %s of %s, which were not seen. The host is up and runs no exporter (%s)."                                                                                                    // waiters, ranks, host, why
	HostSilent     = "%s for %s of %s %s, which does not answer (%s). It is not lost: it last answered %s ago, and its peers last completed an operation with it %s ago. What its ranks do was not seen." // waiters, ranks, what, host, why, length, length
	RankUnseen     = "%s for rank %d, which reported nothing (%s). No other rank can be the cause."                                                                                                       // waiters, rank, why
	HostHangs      = "%s for %s of %s %s, which does not answer (%s). Either all processes of the host hang, or only its exporter does."                                                                  // waiters, ranks, what, host, why
	HostLost       = "%s for %s of %s %s, which does not answer (%s). Either the host is lost, or only its exporter is."                                                                                  // waiters, ranks, what, host, why
	RankSuspect    = "%s for rank %d, which was not seen. It is only a suspect."                                                                                                                          // waiters, rank
	HalfCalled     = "%d of %d ranks are inside %s on %s and wait for the rest, which have not called it. The evidence does not show which ranks those are."                                              // n, of, function, comm
	SuspectsUnseen = "%s for %s, which were not seen. There is not enough evidence to name one."                                                                                                          // waiters, ranks
)

// What a rank shows of itself, as predicates.
const (
	Undelivered      = "does not deliver its data%[3]s in %[1]s%[2]s although the receiver is ready, so its NIC or link is the likely cause"   // op, channel, peer
	Unacknowledged   = "gets no acknowledgement for data that it sent%[3]s in %[1]s%[2]s and that has arrived"                                 // op, channel, peer
	Untransmitted    = "does not send ready data%[3]s in %[1]s%[2]s although the receiver has a buffer posted, so its NIC is the likely cause" // op, channel, peer
	ProxyStopped     = "does not send ready data%[3]s in %[1]s%[2]s because its proxy thread does not even try"                                // op, channel, peer
	GPUStopped       = "has a GPU that stopped inside %[1]s%[2]s although it has received data and has room to send"                           // op, channel
	GPUGivesNothing  = "has a GPU that produces no data for %[1]s%[2]s, and waits for nobody there"                                            // op, channel
	GPUNotCome       = "has a GPU that has given no data for %[1]s, while other GPUs are inside it; it still computes or has stopped"          // op
	KernelStays      = "has moved all its data of %[1]s, and its kernel does not end"                                                          // op
	KernelNotStarted = "called %[1]s, but the kernel never started; its GPU is busy, blocked or dead"                                          // op
	SendNotBegun     = "has not begun to send%[3]s in %[1]s%[2]s; earlier data on that connection has not left or was not taken"               // op, channel, peer
	NotFlushed       = "does not hand data that arrived in %[1]s%[2]s to its GPU; PCIe, the NIC or the driver is the likely cause"             // op, channel
	NoBuffers        = "posts no receive buffers in %[1]s%[2]s, so its sender cannot go on"                                                    // op, channel
	LostOnWire       = "reports data of %[1]s%[2]s as delivered%[3]s, which has not received it"                                               // op, channel, peer
	PeerLeft         = "still has data of %[1]s%[2]s in flight%[3]s, although one end has finished"                                            // op, channel, peer
	LinkUnproven     = "gets no acknowledgement for data that it sent%[3]s in %[1]s%[2]s, and the receiver was not seen"                       // op, channel, peer
	InsideSetup      = "does not return from %[1]s%[5]s"                                                                                       // call, channel, peer, from, back
	InsideCall       = "does not return from the call of %[1]s, while others have launched it"                                                 // op
	GPUAlone         = "has a GPU that does not finish %[1]s, which %[5]s"                                                                     // op, channel, peer, from, finished
	NotReceived      = "does not receive what%[4]s sent in %[1]s%[2]s, and its own host shows why"                                             // op, channel, peer, from
	NICDown          = "has a NIC that is down, and all members of %[1]s stand still together"                                                 // op
	GPUFaulty        = "has a GPU that shows an error, and its host's members of %[1]s stand still together"                                   // op
	OtherFinished    = "the other member has finished"
	OthersFinished   = "the other members have finished"
)

// What a rank does while others wait for it.
const (
	RunsOutside       = "its process is running outside NCCL"
	HardlyBegun       = "the job has hardly begun: compilation, data loading and lazy connections take long in a first step"
	WritesCheckpoint  = "it is writing a checkpoint"
	StuckInStorage    = "its process is blocked in storage and no bytes move"
	StuckInFile       = "its process is blocked in storage, in %s, and no bytes move" // file
	InsideLaunch      = "its CPU is still inside an NCCL call"
	JustActive        = "it was active a moment ago"
	OutsideAsRecorded = "it is outside NCCL as far as its record shows"
	MayWaitUnseen     = "each may wait for another of them in a send, a receive or for the store: this source does not record those"
	EndUnrecorded     = "the end of its %s was not recorded, so it may still be inside it"     // operation
	EndsUnrecorded    = "the end of their %s was not recorded, so they may still be inside it" // operation
	StoppedBySignal   = "its process is stopped (SIGSTOP or a debugger)"
	ProcessDied       = "its process died"
	ExitedEarly       = "its process ended while others still wait for it"
	JobEnding         = "the job is ending: most of its processes have exited in an orderly way"
	NoAnswer          = "it did not answer"
	CalledElsewhere   = "called %s at place %d of %s, where its neighbours called %s in theirs"                                                              // called, place, comm, else
	CalledFewer       = "has called %d operations on %s, while its neighbours have called %d in theirs and stand where it does"                              // n, comm, of
	EnteredElsewhere  = "is inside %s, as its neighbours are, and has not begun %s of %s, which its neighbours finished first; its data has already arrived" // op, operation, comm
	StackIs           = "its stack is %s"                                                                                                                    // stands
	StackMayWait      = "its stack is %s, where it may wait for another rank"                                                                                // stands
)

// Why a rank waits, as predicates of the rank that it waits for.
const (
	WaitNotCalled     = "has not called the operation"
	WaitJustCalled    = "called the operation only a moment ago"
	WaitQueued        = "has called the operation but is still in another"
	WaitNotStarted    = "has called the operation but its kernel does not run"
	WaitDead          = "its process is gone or stopped"
	WaitUnrecorded    = "was not seen"
	WaitOdd           = "called something else at this place"
	WaitNoBuffer      = "has no buffer posted to receive into"
	WaitNoData        = "has not sent"
	WaitNotTaken      = "does not take what was sent"
	WaitHandedOver    = "hands over inside the host and waits itself"
	WaitLacksMembers  = "is inside an operation that lacks members"
	WaitInCircle      = "waits in the same cycle"
	WaitSameOperation = "is inside the same operation"
	WaitUnseen        = "what it waits for was not seen"
	WaitSeveral       = "several reasons"
	WaitLaunchedLess  = "has launched %s fewer" // operations
)

// Culprits other than single ranks, and the reasons.
const (
	NotSeen          = "it was not seen"
	AllRanks         = "all ranks"
	UnseenMembers    = "unseen members of %s" // comm
	OneOfGPUs        = "one of their GPUs holds up the others; nothing inside a host shows which"
	OneOnHost        = "one of them holds up the others; NVLink and shared memory do not show which"
	OneOfTwo         = "one of them holds up the other, and only one of them was seen"
	WeakEvidence     = "weak or partial evidence"
	NobodySeen       = "they were not seen"
	AllWaitForUnseen = "all others wait for it, and it was not seen"
	OneHostGroup     = "%s of %s on one host"                                          // ranks, comm
	OrBehind         = "suspects: %s or a rank behind them"                            // ranks
	NotSeenBecause   = "all others wait for it, and it was not seen: %s"               // why
	NoExporterThere  = "all others wait for %s, and no exporter shows what runs there" // ranks
	HaveNotCalled    = "they have not called %s"                                       // function
	DoesNotAnswer    = "%s does not answer"                                            // what
	OrHolder         = ", or what holds up %s"                                         // ranks
	LinkBetween      = "link between %s and %s"                                        // ranks, else
	UnseenReceiver   = "a rank that was not seen"
	UnseenMember     = "rank %d of %s, which was not seen" // n, comm
)

// What a verdict about a standstill rests on.
const (
	ExplainsAll          = "All %s stuck ranks are explained by this root cause."   // number
	ExplainsSome         = "%s of %s stuck ranks are explained by this root cause." // number, total
	ExplainsIt           = "The stuck rank is explained by this root cause."
	ExplainsNothing      = "One rank is stuck, and this root cause does not explain why."
	CalledAt             = "The ranks that wait called %s at %s."                                                    // operation, site
	DeniedByReceiver     = "Rank %d reports that it is outside an operation in which rank %d has received its data." // rank, other rank
	MoreSentThanReceived = "Rank %d reports more data as delivered to rank %d than that rank has received."          // rank, other rank
	CalledSoMany         = "%s has called %d operations on %s; its peers have called up to %d."                      // Who, n, comm, of
	ProcessState         = "%s: %sits process is %s."                                                                // Who, source, state
	WritesStorage        = "%s writes %.0f MB/s to storage."                                                         // Who, percent
	FileOf               = "%s of %s on %s (%s of %s)"                                                               // sysCall, path, mount, filesystem, server
	WaitsForFile         = "%s waits in %s."                                                                         // Who, file
	SameMount            = "%s for %s: %s."                                                                          // waiters, mount, ranks
	HasNotRun            = "%s has not run between two looks."                                                       // Who
	Stands               = "%s is %s."                                                                               // Who, stands
	ExplainsNobodyElse   = "it explains no rank that the culprits do not explain already"
	UnseenButExplained   = "it was not seen, and what others show explains the waiting"
	RanksUnseen          = "%s of %s not seen" // count, total
)

// Sentences about jobs that are slow.
const (
	NobodySlower      = "No rank, link or stage takes noticeably longer than its peers."
	NobodyInHistories = "No rank stands out in the part of the job's history that hosts sent in time. There is not enough evidence to call the job healthy."
	TooFewIterations  = "Fewer than two iterations were seen. There is not enough evidence to say who is slow."
	LastLonger        = "The last iteration takes %.3g× as long as any before it: too early to say who is slow."                // x
	NobodySeenSlower  = "None of the %s ranks that were seen takes noticeably longer than its peers; %s were not seen."         // number, total
	SlowerForNoCause  = "%s. The cause is not visible in this evidence."                                                        // finding
	SlowerThanHealthy = "Iterations take %.3g× as long as when the job was healthy. The cause is not visible in this evidence." // x
	BusyHosts         = "%s: %s. Threads wait for a CPU on all hosts, so no machine stands out."                                // Who, finding
	NeverFaster       = " Nobody has seen the job faster, so this may come from how its ranks are placed."
	MayHaveWaited     = " Operations with %s on the same host are not seen, and the time may have passed in waiting there." // ranks
	OneOfThem         = "one of them is slow, and others may wait for it in operations that are not seen"
	WaitedForUnseen   = "its node complains about its GPU, and %s on the same host may wait for it in operations that are not seen" // ranks
	NotBeyondChance   = "Chance singles somebody out like this in more than one of %d healthy jobs, so nobody is paged for it yet." // n
	MayBeChance       = " Only %s seen, and they differ so much that this may be chance."                                           // seen
	TooFewToAccuse    = " Only %s seen, in which the ranks may have paused in turn. There is not enough evidence to name one."      // seen
	WithoutIt         = "without it, an iteration would be %.0f%% shorter"                                                          // percent
	NoMachine         = ". No rank stands out, so no machine is to blame."
	Uneven            = "%s: %s. No machine is bad; %s."                                                                                     // group, finding, gain
	UnevenOrSlow      = "%s: %s. Either the model is cut unevenly, or this machine is slow: no other one does the same work to compare; %s." // group, finding, gain
	IterationsSeen    = "%d iterations were"                                                                                                 // n
)

// What makes a job slow, as text after the names of ranks, a link, a stage or a group.
const (
	StageComputes   = "all its ranks compute up to %.0f%% of an iteration longer than other stages" // percent
	NoPeers         = " (no other rank has its role; compared with its own quicker iterations, and others vary less)"
	Computes        = "computes %.0f%% of an iteration longer than its peers"        // percent
	Compute         = "compute up to %.0f%% of an iteration longer than their peers" // percent
	HostCallsLate   = ", because the CPU calls late while the GPU is idle"
	MoreTokens      = "they get more tokens than the others and compute longer in proportion"
	SlowestChanges  = "the slowest rank changes from iteration to iteration (%d ranks in %d iterations)"                                                                      // n, of
	AllSlower       = "all ranks got slower by a factor of %.2f"                                                                                                              // x
	AllCompute      = "all ranks alike compute for %.2f× as long as before"                                                                                                   // x
	ThrottledGPU    = "iterations take %.2f× as long as before; computation is not seen, and this GPU alone runs at a lower clock"                                            // x
	HostComputes    = "compute for %.2f× as long as before, all ranks of the host alike"                                                                                      // x
	AllTransfers    = "transfers of all ranks alike take %.2f× as long as before"                                                                                             // x
	StageGrew       = "the work of all its ranks grew by a factor of %.2f at once, and that of other stages did not"                                                          // x
	ComputesLonger  = "%s %.2f× as long as before, and others do not"                                                                                                         // computes, x
	OrReceiver      = ", or the receiving end at %s"                                                                                                                          // ranks
	LinkSlow        = "transfers on it are in flight %.1f× longer than before or than elsewhere, and the evidence does not show which end is to blame"                        // x
	PathSlow        = "transfers on it are in flight %.1f× longer than before or than elsewhere"                                                                              // x
	EndSlow         = "the data that %s %s is in flight %.1f× longer than before and than on its peers, so %s NIC, link or PCIe is the likely cause"                          // it, sends, x, whose
	ProxyStarves    = "%s transfers are in flight %.1f× longer than before or than elsewhere, and arrived data is handed on late because %s proxy thread does not get to run" // whose, x, whose
	ProxyShort      = "%s transfers are in flight %.1f× longer than before or than elsewhere, and %s proxy thread waits for a CPU"                                            // whose, x, whose
	ProxyLate       = "transfers are in flight no longer than elsewhere, yet data is handed on late because the proxy thread does not get to run"
	FlushLate       = "transfers are in flight no longer than elsewhere, yet arrived data takes long to reach the GPU; PCIe between NIC and GPU is the likely cause"
	GroupSlow       = "transfers take %.2f× as long as their peers', and arrivals are normal"                                                 // x
	MostSlow        = "transfers of most ranks take %.2f× as long as before or as others'"                                                    // x
	GPUAmongMembers = "transfers take %.2f× as long as before, no network flow holds them up, and of all members only its GPU reports errors" // x
	StageUneven     = "its work takes %.2f× as long as that of the other stages, evenly on all its ranks"                                     // x
	OneInside       = "; they run in step inside their host, so nothing shows which of them"
	NearlyAlways    = "in nearly every iteration"
	InSome          = "in %d of %d iterations"                                // n, of
	InSpikes        = "in spikes (%d of %d iterations)"                       // n, of
	InSpell         = "%s (%d of %d iterations, %.3g× as long as the others)" // how, n, of, x
)

// Why a slow job could not be explained.
const (
	RanksNotSeen     = "%s of %s ranks were not seen" // number, total
	RecordsLost      = "records were lost"
	KernelsUnwatched = "kernels were not recorded"
	NetworkUnwatched = "the network was not recorded"
	Contradicted     = "%s: what it recorded contradicts what the ranks that it works with recorded, and is left out" // who
)

// What a verdict about a slow job rests on.
const (
	LongIterations  = "%d of %d iterations took %.3g× as long as the others, and no rank stands out in them."                                         // n, of, x
	WouldBe         = "%s: %s; that accounts for %.1f%% of the time."                                                                                 // cause, finding, percent
	IterationsTake  = "%d iterations took %s on average; without the culprit they would take %s."                                                     // n, length, length
	WouldGain       = "%s: %s; without it, iterations would be %.1f%% shorter"                                                                        // cause, finding, percent
	OnCriticalPath  = "Share of the critical path that the culprits hold: computation %.0f%%, late calls %.0f%%, last to arrive at transfers %.0f%%." // percent, percent, percent
	IfAverage       = "If %s matched the average, an iteration would take %s (−%.0f%%)."                                                              // group, length, percent
	NetworkFine     = "The network is not the cause: with every transfer at its median, an iteration would be only %.1f%% shorter."                   // percent
	Paused          = "%s paused for up to %s between two operations in %d of %d iterations and then went on as before"                               // Ranks, length, n, of
	PausedWriting   = ", and wrote to storage: a checkpoint."
	PausedRegularly = ", at regular intervals: a checkpoint, an evaluation or a garbage collection."
	PausedOnce      = ", as for a checkpoint, an evaluation or a garbage collection."
)

// Sentences about launch counts alone.
const (
	CountsOfUnknown     = "Ranks have launched different numbers of operations, and the files do not say which ranks."
	LaunchesGoOnUntimed = "Ranks go on launching operations, and none is behind by more than in running jobs. Launch counts do not show how long operations take. There is not enough evidence to say whether the job is slow."
	LaunchesGoOn        = "Ranks go on launching operations, and none is behind by more than in running jobs."
	SlightlyBehind      = "%s behind by %s. Running jobs look like this for a moment, too: one report is not enough evidence." // ranksAre, operations
	LaunchedAlikeTwice  = "All ranks have launched the same operations, and none between the reports. If the job hangs, all ranks are inside one operation."
	LaunchedAlike       = "All ranks have launched the same operations. Launch counts do not show whether these complete."
	ConsideredDead      = "%s lost: NCCL considers the process dead, and its peers cannot finish without it." // ranksAre
	DeadWhy             = "NCCL considers its process dead"
	NotAnswering        = "%s not answering: the process has exited or is stopped, or its host is stuck or unreachable." // ranksAre
	NotAnsweringWhy     = "its process did not answer"
	DeadUnnamed         = "%s missing or dead. The evidence does not show which ranks they are." // processes
	InError             = " in an error state; the others are not."
	ErrorsOfSeveral     = "%s report errors. The evidence does not show which error came first."                                                    // Count
	Finalising          = "A communicator is being finalised by %s: uneven counts are expected while communicators shut down."                      // count
	Initialising        = "A communicator is being initialised by %s: uneven counts are expected while communicators start."                        // count
	OtherFunctions      = "%s: %s; the others: %s"                                                                                                  // Ranks, called, else
	LaunchedOther       = "%s launched other operations than the other %s of communicator %s."                                                      // Ranks, rest, comm
	LaunchedSplit       = "The ranks of communicator %s launched different operations. Even split: the evidence does not show which half is wrong." // comm
	MostAhead           = "%s launched more than most others. Launch counts do not show for whom those wait."                                       // Count
	BehindEachOther     = "Ranks are behind each other in different communicators: launch counts alone do not name the first."
	BehindBy            = "%s behind in communicator %s" // operations, comm
	CountUnchanged      = "Its count did not change between two reports."
	OneReport           = "There is one report only: a slow rank looks the same for a moment."
	NotLaunched         = "%s not launched what the other ranks have: %s behind in communicator %s." // ranksHave, operations, comm
	BehindInOneReport   = "behind by %s in one report"                                               // operations
)

// Sentences about call stacks alone.
const (
	StacksShow       = "%s%s %s while %s." // Who, is, stands, rest are
	OneMoment        = "A stack shows one moment: take another, and see whether it is the same."
	StacksNameNobody = "Stacks alone are not enough evidence to name a rank: "
	OtherRankIs      = "the other rank is"
	OtherRanksAre    = "the other %d ranks are" // n
)

// Sentences where nothing was found.
const (
	NothingSeen      = "Nothing was seen of the job. There is not enough evidence to name a rank."
	NoCallsFor       = "No rank has called an operation for %s. All ranks seen have called the same operations, and this source records no completions. There is not enough evidence to name a rank." // length
	FaultyGPU        = "%s has a GPU that shows an error, and no rank has called an operation for %s. All ranks seen have called the same operations, so nothing else tells them apart."              // Who, length
	FaultyNIC        = "The NIC %s of %s is down, and no rank has called an operation for %s. All ranks seen have called the same operations, so nothing else tells them apart."                      // nic, host, length
	FellSilent       = "%s %s does not answer (%s): %s run there. It fell silent when the job stopped: no rank has called an operation for %s."                                                       // what, host, why, ranks, length
	GPUShowsError    = "its GPU shows an error"
	NICShownDown     = "its NIC is down"
	NICOfOneDown     = "a NIC of their host is down; which of them use it is not known"
	NothingFinished  = "No rank stands still, and no finished work was recorded that would show who is slow."
	NobodySeenStands = "No rank of those seen stands still, "
	SomeUnknown      = "but %s of %s were not seen." // number, total
	SomeLost         = "but some of their records were lost."
	NobodyStands     = "No rank stands still."
	SendsUnrecorded  = "No recorded operation is pending, but this source does not record sends, receives or waits for the store: a hang cannot be ruled out."
	NeitherProven    = "No file shows a rank that stands still, and none shows a rank that completes anything: a hang cannot be ruled out."
)

// Advice where class and cause do not give it.
const (
	ReadLauncher        = "Read the launcher's log: it says who ended the job, or which process failed first."
	DumpStackOf         = "Dump the stack of rank %d (py-spy dump --pid PID): it shows whether the rank is inside NCCL or in its own code." // rank
	RecordBroadcasts    = " To record the end of broadcasts, start the job with NCCL_ALLGATHERV_ENABLE=0."
	CheckMount          = "Check the mount %s (%s of %s) on %s: it does not answer. The process cannot be killed while it is blocked there." // mount, filesystem, server, host
	TakeStacksOfThese   = "Take stacks of these ranks: a rank that is in none of those calls holds up the others."
	FindPeers           = "Take stacks of all ranks to find which rank that call waits for."
	LookLater           = "Analyze again when the job has run for longer."
	HistoriesLate       = "Analyze again when the hosts listed as missing answer in time: what their ranks did was not seen."
	RelieveHosts        = "Look for what else runs on these hosts, and at the CPU limits of the job's containers."
	SeeKernels          = "Look at the clocks and errors of the GPUs of all suspects, or turn kernel events on."
	CompareRuns         = "Compare with an earlier run of the job, or look again when it has run for longer."
	LoadPlugin          = "Load the profiler plugin beside the hooks: it records the ends of operations."
	SecondReport        = "Take a second report some seconds later (ncclras -v), and analyze both: if counts still move, the job does not hang."
	StacksOrDump        = "Take stacks (py-spy dump --pid PID) or a Flight Recorder dump of every rank: launch counts do not show who holds up the operation."
	LookInAMinute       = "Take another report in a minute: if it is the same, ranks are stuck there."
	SecondReportAndDump = "Take a second report, and a Flight Recorder dump or stacks of the ranks behind."
	SecondStacks        = "Take a second set of stacks of all ranks: a rank that has moved does not hold up the others."
	WhatEndedThem       = "Look for what ended them: the scheduler's record of the job, the kernel log of the host (oom-kill), or the exception that all raised."
	DumpAllStacks       = "Dump the stacks of all ranks (py-spy dump --pid PID): one outside NCCL holds up the others. Start the job with kernel events (CULPRIT_EVENTS=+kernelch): they show which GPU does not finish."
)

// What the papers' methods alone conclude.
const (
	MethodNotBegun      = "has not begun the operation"
	MethodSlowestRate   = "lowest rate over its last ten exchanges"
	MethodStartsLate    = "first to start late, in %d of %d collectives" // n, of
	MethodActiveLongest = "longest active time, in %d of %d collectives" // n, of
)

// What byte counters of flows show for a collective library without a profiler.
const (
	FlowsMethod          = "begin, active time and volume of operations that were cut out of flows' bytes"
	FlowsNotBegun        = "Rank %d has sent nothing in the last of the %s, which %s began and nobody has finished; nothing has been sent for %s. The rank has not come to it, or its network moves nothing." // rank, group operations, others, length
	FlowsSeveralNotBegun = "%s have sent nothing in the last of the %s, which others began. One of them may hold up the others, or what they share; bytes do not show which."                                 // ranks, group operations
	FlowsSentLeast       = "Rank %d has sent least in the last of the %s, and each rank after it in the ring one chunk more: it stopped, or nothing reaches it from rank %d. Nothing has been sent for %s."   // rank, group operations, other rank, length
	FlowsNobodyLeast     = "Nothing has been sent for %s, and the last of the %s has not ended. All ranks began it, and their volumes do not show who stopped first."                                         // length, group operations
	FlowsSomeFinished    = "Nothing has been sent for %s, and the last of the %s has ended on some ranks only. Their volumes do not show who stopped first."                                                  // length, group operations
	FlowsVolumeUnknown   = "Nothing has been sent for %s. How much the last of the %s should move is not known, so it may have ended."                                                                        // length, group operations
	FlowsRecordEnds      = "%s has no lines up to the end of the recording, while the last of the %s stands still: nothing has been sent for %s. Its counters, its host or its process may be gone."          // Rank, group operations, length
	FlowsLate            = "Rank %d begins late in the %s: in %d of %d, by %s. What it does before it sends is not seen in bytes."                                                                            // rank, group operations, n, of, length
	FlowsSeveralLate     = "Several ranks begin the %s late, or in turn: %d of %d show it. Bytes do not show which of them holds up the others."                                                              // group operations, n, of
	FlowsLong            = "Rank %d sends to rank %d for longer than the others send, in the %s: %d of %d show it. Its network sends slowly, or the path to that rank is slow."                               // rank, other rank, group operations, n, of
	FlowsSeveralLong     = "Several ranks send for longer than the others in the %s: %d of %d show it. A finer recording shows which of them makes the gaps on the others."                                   // group operations, n, of
	FlowsSlowestRate     = "Rank %d sends at the lowest rate in the %s, over the last ten of them."                                                                                                           // rank, group operations
	FlowsInside          = "The %s take longer than they did, in %d of %d, but begin in time and send for as long as before. A CPU or a GPU is slow inside them; bytes do not show which."                    // group operations, n, of
	FlowsEitherEnd       = "one of its two ends stopped, or the network between them"
	FlowsDisagree        = "%d groups of flows show trouble, and they do not point at one rank. The ranks may share a host, a switch or a group that is not recorded." // n
	FlowsUnmatched       = "The operations of the ranks cannot be matched with each other: the flows belong to several groups, form no ring, or the ranks' clocks differ by much."
	FlowsTooFew          = "The recording holds too few whole operations to compare the ranks."
	FlowsSilent          = "The last operations ended on all ranks, and no flow has moved anything since: the job computes, ended, or stands still outside communication."
	FlowsCoarse          = "No rank begins late, and nothing stands still. The recording is too coarse to show a slow link."
	FlowsHealthy         = "Nothing stands still in the flows: no rank begins late, sends for longer or sends less than the others."
	FlowsStated          = "as stated"
	FlowsLearned         = "the volume that recurs between gaps"
	FlowsStatedSpeed     = "as stated"
	FlowsFastest         = "the fastest interval in the recording"
	FlowsCut             = "%s: %d found, each rank sends at least %s bytes in one (%s); a gap of %s ends one"                                                    // group operations, n, total, how, length
	FlowsNoVolume        = "%s: no volume recurs between gaps, so it is not known where one ends; give operation and size_bytes"                                  // group operations
	FlowsUnfit           = "%s: the flows move less than the stated operation needs, so its volume was learned; a flow may be missing"                            // group operations
	FlowsCoarseNote      = "an interval of %s hides the gaps that a link of half its bandwidth makes on the others: %s would show them, for %s at %.3g Gb/s (%s)" // length, length, group operations, x, how
	FlowsUnrecorded      = "%s: receivers in the %s, but the recording has no lines for them"                                                                     // Ranks, group operations
	FlowsSentNothing     = "rank %d: nothing sent in the last of the %s"                                                                                          // rank, group operations
	FlowsSent            = "rank %d: %s bytes sent in the last of the %s"                                                                                         // rank, total, group operations
)

// Advice about flows.
const (
	FlowsConfirm     = "Bytes are weak evidence: take the stack of this rank (py-spy dump --pid PID), and read the counters of its NIC and of the switch port."
	FlowsStacksOfAll = "Take stacks of all ranks (py-spy dump --pid PID): one outside the collective library holds up the others."
	FlowsLabel       = "Give the group of each flow (column group), all flows of all ranks, and times of one clock."
	FlowsLonger      = "Record more operations of all ranks."
	FlowsFiner       = "Record at a finer interval: the notes say how fine."
)

// OfSeveral turns a note about one rank into one about several.
func OfSeveral(note string) string { return ofSeveral.Replace(note) }

// OfProcess turns a note about the process of one rank into one about the process of several ranks.
func OfProcess(note string) string { return strings.ReplaceAll(note, "its process", "their process") }

var ofSeveral = strings.NewReplacer("its process is", "their processes are", ProcessDied, "their processes died", "its process ended", "their processes ended",
	"its stack is", "their stacks are", "it raised", "each raised", "it is writing", "they are writing", "it was active", "they were active",
	OutsideAsRecorded, "they are outside NCCL as far as their records show")
