// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package grammar

import (
	"bytes"
	"regexp"
)

// Failure is a line in which a program says that something failed, whether or not a row knows the message.
type Failure struct {
	At      int    // Where its line begins.
	Text    string // The message without labels.
	Follows bool   // It is the kind of message that another process's end or absence causes.
	Score   int    // How well it names the failure, by marks.
	quiet   bool   // At a level at which programs speak of errors that they got over.
}

// better reports whether a line names a failure better than another.
func (f *Failure) better(than *Failure) bool {
	return f.weight() > than.weight()
}

// Weak says that the line hardly names a failure.
func (f *Failure) Weak() bool { return f.weight() <= 0 }

func (f *Failure) weight() int {
	switch {
	case f.Score == 0:
		return -1
	case f.quiet:
		return max(0, f.Score-consequence-1)
	case f.Follows:
		return max(1, f.Score-consequence)
	}
	return f.Score
}

// consequence is as much as a level's mark: an error that only follows names a failure no better than words without one.
const consequence = 2

// mark is a way in which programs say that something failed. Marks of one line add up: a level alone says less than an error that has
// a name.
type mark struct {
	what  string
	score int
	re    *regexp.Regexp
}

var marks = []mark{
	{"an error of a library or driver, by its name", 3, re(`\b(?:nccl|cuda|hip|cublas|cudnn)[A-Z]\w*(?:Error|Usage|Failure|Argument|Failed)\b|\b(?:cuda|hip)Error\w+|\b(?:CUDA|HIP|HSA|NCCL|RCCL|CUBLAS|CUDNN|CUFFT|CUSOLVER|CUSPARSE|NVML|UCS|IBV_WC|ZE|XPU|ACL|MPI|SYN)\w*_(?:ERR|STATUS|RESULT)\w*|\b(?:CUDA|HIP|NCCL|RCCL|HCCL|XPU|NPU|SYCL|MPI|NVSHMEM|Triton|cuBLAS|cuDNN|GPU|driver|runtime) (?i:error|failure|exception|fault|hang)\b|\bE[A-Z]\d{4}: |\b(?:Xid|XID)\b|\b(?:DEADLINE_EXCEEDED|UNAVAILABLE|INTERNAL|RESOURCE_EXHAUSTED|FAILED_PRECONDITION|ABORTED|DATA_LOSS|INVALID_ARGUMENT): `)},
	{"an exception or a failed assertion", 3, re(`(?:^|[\s:>|])(?:[A-Za-z_][\w.]*)?(?:Error|Exception|Interrupt|Exit|Expired)(?: ?\([\w. ]+\))?: \S|\b(?i:assert\w*)\b[^\n]*\b(?i:fail\w*)|\bwhat\(\): `)},
	{"the end of a process", 3, re(`(?i)\bexit(?:ed|s|ing)?\b[^\n]{0,40}?\b(?:code|status)\b\D{0,4}[1-9]\d*|\bexitcode\W{1,3}-?[1-9]|\bstatus failed\b|\b(?:killed|terminated|ended|exited|died)\b[^\n]{0,20}\b(?:signal|sig[a-z]{3,4})\b|segmentation fault|core dumped|\bout of memory\b|\boom[- ]?kill|\bdied\b|\bcrashed\b`)},
	{"an error of the operating system", 2, re(`No such file or directory|Permission denied|No space left on device|Input/output error|Cannot allocate memory|Too many open files|Bus error|Stale file handle|Device or resource busy|Address already in use|No such device|cannot open shared object|undefined symbol|command not found`)},
	{"a level: fatal", 3, re(`\b(?:FATAL|Fatal|fatal|CRITICAL|SEVERE|PANIC|panic)\b|^F\d{4} \d|: F [a-z]`)},
	{"a level: error", 2, re(`\b(?:ERROR|Error|error|ERR)\b|(?:^|\]:? ?)\[?E\d{0,4} \d|: E [a-z]|"level":"error"`)},
	{"words of failure", 1, re(`(?i)\b(?:fail(?:ed|s|ure)?|abort(?:ed|ing)?|cannot|can't|could not|unable to|expired|denied|rejected|refused|timed out|time-?out|unreachable|unhealthy|stuck|hung|deadlock\w*|stall(?:ed)?|mismatch\w*|inconsistent|corrupt\w*|invalid|unsupported|unrecognized|not found|missing)\b`)},
}

var (
	// asides are lines that only talk about errors: frames, hints, counts of none, settings, the source's own lines.
	asides = re(`^\S+ FAILED$|\bSystemExit\b|Additional GRPC error information|^\s*(?:frame #|#?\d+:? +0x|#\d+ |at [\w.$]+\(|File "|raise |return |self\.|except|[\^~|│ ]+$|env \{|\w+_(?:configs?|cfg) *: |[^\n]*\{\s*$|Solution *:|\w[\w ./-]* \.{3,} )|(?i)\b(?:0 errors?|no errors? (?:found|occurred|detected|reported)|without errors?|errors?[=: ]+0|failed[=: ]+0|failures?[=: ]+0|error_file|error handling|For debugging consider|Compile with|Possible Cause|To enable traceback|might be incorrect|might be asynchronously|for more information|To avoid data inconsistency|Rectify the fault|Per user-direction|FutureWarning|DeprecationWarning|UserWarning|dlerror=|Plugin)\b`)
	// quieter are levels at which programs speak of errors that they got over.
	quieter = re(`\b(?:INFO|DEBUG|TRACE|WARN|WARNING|Warning|warning|info|debug)\b|^W\d{4} \d|\[W\d{0,4} `)
	// follows are messages that another process's end or absence causes, and what launchers say of ends that they saw.
	follows = re(`(?i)remote process|Collective WorkNCCL|RAY_IGNORE_UNHANDLED_ERRORS|actor died unexpectedly|ActorDiedError|RayActorError|by peer|remote peer|remote rank|broken pipe|connection (?:reset|closed|refused)|shutting down|shut down|stack trace above|see .*(?:above|root cause)|background process|closing signal|killing subprocess|terminating|sigterm|ChildFailedError|CalledProcessError|SignalException|EngineDead|heartbeat|store->get|TCPStore|failed or timed out|was aborted|child\b.*fail|aborting communicator|should dump|job step aborted|forcing job termination|cancelled at`)
)

// failureSpan is how much of a text's beginning and of its end is searched for failures.
const failureSpan = 1 << 20

const longestFailure = 2 << 10 // Bytes of a line that are looked at.

// FirstFailure gives the line that names a failure best, and of equals the first. known says which lines a row has read already, by where
// they begin.
func FirstFailure(text []byte, known func(start, end int) bool) (Failure, bool) {
	best := Failure{}
	small := make([]byte, 0, longestFailure)
	for at := 0; at < len(text); {
		if at > failureSpan && at < len(text)-failureSpan {
			at = len(text) - failureSpan
		}
		end := len(text)
		if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		f := Failure{At: at}
		if line := text[at:min(end, at+longestFailure)]; suspect(line, small) {
			f.score(line)
		}
		if f.Score > 0 && f.better(&best) && !known(at, end) {
			f.Text = message(text[at:end])
			best = f
		}
		at = end
	}
	return best, best.Score > 0
}

// HasFailure reports whether a text has a line that names a failure; unless any line will do, well enough to be worth reading for it.
func HasFailure(text []byte, anyLine bool) bool {
	const well = 2
	f, ok := FirstFailure(text, func(int, int) bool { return false })
	return ok && anyLine || ok && f.weight() >= well || ok && f.Follows && f.Score >= well
}

// score looks how well a line names a failure; 0: it names none.
func (f *Failure) score(line []byte) {
	if asides.Match(line) {
		return
	}
	for i := range marks {
		if marks[i].re.Match(line) {
			f.Score += marks[i].score
		}
	}
	const fewWords = 4 // "Inner Error!" does not say what failed.
	f.quiet = quieter.Match(line) || len(bytes.Fields(line)) < fewWords
	f.Follows = f.Score > 0 && follows.Match(line)
}

// suspicious are words of which each line has one that any of the marks is on, in small letters: a quick look.
var suspicious = newWordSet(bytes.Fields([]byte(`
	err fail fatal critical severe panic exce abort assert exit kill crash died signal timed timeout time-out refused denied cannot can't could
	unable such space found mismatch invalid corrupt stuck hung deadlock stall missing status result xid what() memory fault busy unsupported unrecognized
	inconsistent expire reject unhealthy unreach symbol interrupt fell hang ee1 eh9 ei0 ej0 ez9`)))

// suspect reports whether a line is worth a closer look; small is room for it.
func suspect(line, small []byte) bool {
	if len(line) > 1 && (line[0] == 'E' || line[0] == 'F') && line[1] >= '0' && line[1] <= '9' || bytes.Contains(line, []byte(": E ")) || bytes.Contains(line, []byte(": F ")) || bytes.Contains(line, []byte("[E")) {
		return true
	}
	small = small[:0]
	for _, c := range line {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		small = append(small, c)
	}
	at, _ := suspicious.next(small, 0)
	return at >= 0
}

// ownHead is what loggers put before a message; the message is what a person wants to read.
var ownHead = re(`^(?:\[rank\d+\]:? ?|\[proc \S*? pid=\d+\]:? |\d{4}-\d\d-\d\d[T ][\d:.,]+:? |\[?[IWEF]\d{3,4} [\d:.]+ (?:\d+ )?[\w./]+:\d+\] |\[\d{4}-\d\d-\d\d[^\]]*\] ?)*`)

func message(line []byte) string {
	line = bytes.TrimSpace(line)
	if rest := bytes.TrimSpace(line[len(ownHead.Find(line)):]); len(rest) > 0 {
		line = rest
	}
	return string(bytes.Join(bytes.Fields(bytes.ToValidUTF8(line, nil)), []byte(" ")))
}
