// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package slow

// Thresholds and weights, with their reasons. Shares are of an iteration unless they say otherwise; gains are the length of iterations
// over that without what is blamed. Weights are 0 to 1; from Options.NameConfidence (0.5) on a rank is named, and what a person is told as
// confidence is fitted on simulated jobs (calibration.json).

// What an explanation must gain, and how explanations are told apart.
const (
	leastGain = 1.03 // What an explanation must gain to be one.

	// leastOwed is the least part of a job's slowdown that an explanation has to account for, as far as the replay can tell.
	leastOwed = 0.5

	// mattersFrom is the share of the worst delay, or of the whole gain, below which a delay is a side effect.
	mattersFrom = 0.3

	// nearlyAll is how much of something counts as all of it.
	nearlyAll = 0.8

	// That everybody got slower follows from one's getting slower, too: a local explanation that accounts for localShare of it comes first,
	// and one that gains localGain where it was not seen to be everybody alike. Less is enough where not all ranks that wait for it were seen.
	localShare      = 0.5
	localGain       = 1.1
	localGainUnseen = 1.05

	// Weights from which it was seen to be everybody alike, and from which one place or rank is the reason.
	evenly       = 0.5
	placed       = 0.6
	placedUnseen = 0.55

	nobodyWeight        = 0.8  // Of a verdict that found nothing.
	unknownWeight       = 0.3  // Of an unknown verdict.
	pausesWeight        = 0.6  // Of pauses that explain the longer iterations,
	regularPausesWeight = 0.85 // of those that come at equal distances, or while a rank writes.
	worthTelling        = 0.02 // What an answer to "what if" must save to be told.
	led                 = 0.95 // Of the result of a search, which was led to the ranks it asked by what is known of all.
)

// When the job became slower.
const (
	leastOnset = 1.05 // The factor from which a lasting change of the iteration time is one,
	leastSince = 3    // seen in so many iterations,
	jumpFactor = 1.2  // and from which one is that only an iteration or two show.

	beyondNoise = 4 // So many median distances from the median is no noise of an iteration's length.

	// Trouble that comes and goes (H7: spikes) is diluted in the mean of all iterations and does not move their median. Where the
	// whole window shows no culprit, the iterations that took longer are therefore laid beside the others, as now beside before. Each
	// rank's are its own: stages begin their iterations with different operations, so that what delays one rank's sixth delays
	// another's seventh.
	spellFactor = 1.2 // Over the usual iteration, from which one belongs to a spell.
	usualFactor = 1.1 // Up to which one is usual.
	leastUsual  = 3   // So many must be usual.
	spellShare  = 0.3 // Of what they took longer, that the flows of a place must have been outstanding longer.
	oncePlace   = 0.8 // The weight that a place must have where it was slow in one iteration alone.

	// Bounds of a pause: a share of the usual iteration from which one gap is one, the share of iterations up to which they are the
	// exception, and the number of iterations in a row from which it is none. A job that pauses in every other iteration is slow.
	leastPause  = 0.25
	mostPaused  = 0.4
	pauseRun    = 3
	regularFrom = 3 // Pauses from which their distances tell something.
)

// Which iteration is which, of ranks that record different operations.
const (
	stretchGain = 0.3  // By how much more alike stretches must be at a longer period, to be of that.
	countRoom   = 0.7  // By how many operations two iterations of one kind may differ,
	countShare  = 0.15 // or by what share of them.
)

// Whose own work.
const (
	heavyShare     = 0.02 // Own work beyond the peers' that counts.
	heavySpreads   = 6    // And how many of the usual distances from the median it must be.
	persistentFrom = 0.7  // Share of iterations from which degradation is persistent (H7),
	fluctuatesFrom = 0.25 // from which it fluctuates, and below which it comes in spikes.
	mostlyHost     = 0.6  // Share of own work before the call from which the host calls late.
	chanceShare    = 0.15 // Of what a rank has beyond its peers, that it may fall short of them in other iterations: a slow machine is never the quicker for it.
	moreTokens     = 1.1  // Over the median's bytes, from which experts were sent more.

	// Share of the worst's excess below which a rank's is a side effect. Where starts are not seen the worst's is known less well.
	alongFrom       = 0.3
	alongUnseenFrom = 0.5

	// Without iterations from before the job became slower, a rank's own work pages only if it was seen in so many: pauses that take turns
	// look in few iterations as if all who paused were slow in each. leastBesidePause is the number where one of them held a pause.
	often            = 6
	leastBesidePause = 12

	leastGrowth = 1.1 // Own work over what it was, from which a rank has become slower.
	alikeGrowth = 0.5 // The share of the worst's growth that others of the same cause have.

	heavyWeight       = 0.9  // The replay shows what it costs.
	heavyGrownWeight  = 0.85 // It has grown.
	noPeersWeight     = 0.6  // No other rank does the same work, so there is nothing to compare it with.
	scatteredWeight   = 0.5  // They are many, on as many hosts: hardly one cause.
	heavyAlwaysWeight = 0.7  // It differs, and the replay does not show all that it costs.

	// Computation that is uneven by design of the job is no rank's fault.
	leastScatter   = 1.15 // What evening out all ranks must gain before their scatter is more than a machine's noise.
	oneOfRotating  = 0.4  // Share of it above which it is one rank's, and no rotation.
	rotatingWeight = 0.75
	routingWeight  = 0.8

	// Pipelines are seldom cut quite evenly: evening out must gain leastStageGain. Where a stage has plainCut times the work of the
	// others, less will do: with few micro-batches in flight most of what it costs is lost in filling and draining the pipeline, and no
	// even cut of the same work wins that back.
	leastStageGain = 1.04
	leastCutGain   = 1.02
	plainCut       = 1.25
	leastStageWork = 1.05 // Times the other stages' work, from which a stage has more.
	stageWeight    = 0.85

	// Everybody, alike: the median ratio, and how far from it a rank's may be.
	leastEven      = 1.05
	leastEvenSends = 1.2
	evenLow        = 0.6
	evenHigh       = 1.6
	evenWeight     = 0.85
	// A GPU that runs at a lower clock, alone of all, while the job is known to have become slower and computation is not seen: as much as
	// what a node shows of a standstill (engine/weights.go).
	throttledWeight = 0.7
	evenHostWeight  = 0.75 // All ranks are of one host, and its node complains.
	globalWeight    = 0.35 // It is slower, and not seen to be everybody alike.

	// A thread that is ready and gets no CPU tells of its host only as far as the other hosts' threads fare better, and it did itself
	// before: on machines that are busy as a whole all of them wait, and a thread that always waited did not make the job slow.
	longDelay  = 0.2 // Share of time without a CPU that is worth a look.
	cpuShare   = 0.5 // Of what transfers take longer, that a thread must have waited for a CPU to be why: its waiting is part of that time.
	timesOther = 2   // So many times the usual of the other hosts, or of the thread itself.

	// How likely chance may be to single out anybody as who is named is, and as who is paged for: a healthy job is looked at often.
	nameChance = 0.05
	pageChance = 1e-3

	// Iterations that are fewer are divided into about so many parts, in which transfers are compared: Student's t asks hardly less of more.
	steadyParts = 24

	// plainly is how many times longer an iteration must be because of a rank that computes, before its hosts' being short of CPU no longer
	// explains it.
	plainly = 2
)

// Which place in the network.
const (
	latencyScale   = 100e3 // Outstanding times of this many ns count half.
	leastWeight    = 0.2   // Flows of less say little of who uses a path.
	noteworthyTime = 0.01  // Times that make this share of the window count half.
	mostSlow       = 10    // Beyond this ratio it is latency that counts, not by how much.
	leastSlow      = 1.25  // From this ratio to their peers on flows are slow,
	leastSlower    = 1.1   // from this to their own past.
	noticeable     = 0.005 // Share of the window from which an end's delay is looked at.
	dominantTimes  = 3     // How many times its peers' an end's delay must be to dominate,
	dominantShare  = 0.03  // and what share of the window.

	// leastFit is the share of the slowness that a place must explain to be named.
	leastFit  = 0.4
	sureFit   = 0.7 // From which it is sure.
	fitWeight = 0.5 // A place's weight where it explains nothing,
	fitSlope  = 0.4 // and what is added where it explains all.

	// leastPart is the part of the delay that the flows of a place must hold that is sure by its fit: steps that come late leave less in
	// flight, and so every flow of a delayed operation looks a little slower.
	leastPart = 0.15

	// Between places that explain alike: small ones before large ones, and those of which the node's own evidence speaks (X2).
	everywherePrior = 0.06
	onlyLink        = 0.1 // So much more than a rank's end or a path has one link to explain.
	pathPrior       = 0.02
	rankPrior       = 0.01 // For each rank beside the first, up to four.
	oneEndPrior     = 0.01 // Sends or receives alone.
	sickPathPrior   = 0.05
	sickEndPrior    = 0.1

	mostlyThrough = 0.5 // The share of flows that goes through a place, from which they are compared with those that do not.

	widerFit = 0.08 // What a place must explain more before ranks are added to it: they share a NIC.

	slowTransfers = 1.15 // Times what they take elsewhere or took before, from which a communicator's transfers are slow.

	pathWeight     = 0.78 // The most that is believed of a path: several NICs at one of its ends would look alike.
	twoEndsWeight  = 0.6  // The most that is believed where the other end may be meant.
	otherEndWeight = 0.55 // And where that one is named for its being the sender.

	// leastTimes is by what factor transfers must be outstanding longer than elsewhere before a place in the network is accused in a job that
	// is not known to have been faster: that of a NIC at half its rate. By less places differ in healthy networks, too: hosts with fewer ranks,
	// the ends of a pipeline, longer paths.
	leastTimes = 2

	// In a ring all wait for the slowest link, step by step: less is in flight at a time, each transfer stays outstanding longer, and so
	// every flow looks slower. But only the link that they wait for is busy as long as the operation lasts: where an operation
	// takes twice as long, so do its transfers, and all others have slack.
	slackFrom = 1.1 // An operation that takes so many times as long as before tells its flows apart.
	fullShare = 0.6 // What a flow must have become slower by, of what its operation did, to be what it waited for.

	// What is handed on late: by the flush, or by a thread that is late to see the GPU take data, too.
	takenLate          = 0.4 // Of the delay, from which it is the thread.
	proxyWeight        = 0.75
	severalHostsWeight = 0.4 // It is on several hosts, or nearly everywhere.

	// Transfers of a communicator that no end stands out in.
	groupWeight      = 0.5
	commonWeight     = 0.65 // One rank is in all of them, or one member's GPU shows an error.
	sickMemberWeight = 0.75 // And that gains something.
	noisyRatio       = 1.5  // Up to which it is a network's noise where the flows were seen.
)

// What was not seen.
const (
	likelyShare        = 0.5  // Of a rank's own work that others wait for, where nothing says how much slower the job became.
	onsetRoom          = 1.5  // How much more own work may have grown than iterations have: beyond, it was not seen whole before.
	asManyRoom         = 1.25 // By how many times the pieces of two iterations may differ in number.
	samePace           = 0.05 // Share by which how often two operations come may differ, where they come once in the same iteration.
	otherPace          = 1.5  // Times as often as another rank's rarest operation, from which they do not cut the same iterations.
	severalFrom        = 1.5  // Times the usual length, from which a stretch with a lost record is several.
	fewHoles           = 0.02 // Share of work beside holes up to which nothing is lost: histories of ranks end at different operations.
	holesDiscount      = 0.4  // How much less having found nothing is believed where all records have holes.
	startsUnseenFactor = 0.6  // Where operations seem to begin when they are called: of having found nothing, and the most that is believed of own work.
	mirroredShare      = 0.5  // Of what a rank does more, which the only others who do the same do less: either may be as it should not.

	// leastLost is the share of a timeline from which on putting lost records back is worth building it again: histories that do not
	// end at the same operation lack a few.
	leastLost = 0.002

	// aside is how many operations of a class before and after one tell what it takes: few enough to follow a job that gets
	// slower, and enough to have nearly always more that are whole than not.
	aside = 4

	idleShare          = 0.002 // Of all ranks' time, from which an entrance's idle time is asked about.
	idleEffect         = 0.5   // Of its mean: what taking it away must gain to be work.
	idleEntrancesAsked = 16    // Entrances asked about, those with most idle time first.
	recordedWork       = 0.5   // Of a rank's own work, from which on a source records computations.
	unrecorded         = 0.2   // Share of the ranks' own work from which the time between operations stands for computation.

	// mostContradicted is the share of what others confirm or deny of a rank's records from which on those are not believed, and
	// leastContradicted from how many contradictions on that is asked.
	mostContradicted  = 0.5
	leastContradicted = 8

	// A computation that ranks begin apart and leave together has an operation inside that was not recorded. Its begins must lie a
	// millisecond apart to tell anything, its ends leaveTogether times closer, in at least leastTogether iterations and mostlyTogether times
	// as many as in which they do not.
	apartFrom      = 1_000_000 // ns
	leaveTogether  = 10
	leastTogether  = 3
	mostlyTogether = 9

	unevenTimes  = 2    // From so many times as long as another channel on, one channel of an operation is slow alone.
	controlBytes = 4096 // The size up to which operations carry counts, norms and flags, not a model's data.
	repeat       = 2    // In how many iterations CCL-D's ratio must be over its bound: one alone is a blip.
)
