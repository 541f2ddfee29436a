// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package told

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/culprit-project/culprit/analyzer/offline/grammar"
)

var signals = map[int]string{
	1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM",
}

// Ending puts an exit code, negative for a signal, into words.
func Ending(code string) string {
	n, err := strconv.Atoi(code)
	if err != nil {
		return ""
	}
	if n > 128 && signals[n-128] != "" {
		n = 128 - n // As shells say it.
	}
	if n < 0 {
		return strings.TrimSpace(fmt.Sprintf("signal %d %s", -n, strings.TrimSuffix("("+signals[-n]+")", "()")))
	}
	return "exit code " + code
}

// SignalCode gives a signal's name, or the shell's word for it, as a negative code.
func SignalCode(name string) string {
	name = map[string]string{
		"Segmentation fault": "SIGSEGV", "Bus error": "SIGBUS", "Killed": "SIGKILL", "Aborted": "SIGABRT", "Illegal instruction": "SIGILL",
	}[name] + name
	for n, s := range signals {
		if strings.HasPrefix(name, s) {
			return strconv.Itoa(-n)
		}
	}
	return ""
}

// End says of which kind the end of a process is, and what it was.
func End(kind grammar.Kind, code string) (grammar.Kind, string) {
	why := Ending(code)
	if kind == grammar.OneOfHost {
		return kind, "ended with " + why
	}
	says := "ended with " + why
	if strings.HasPrefix(why, "signal") {
		says = "was ended by " + why
	}
	switch {
	case strings.Contains(why, "SIGKILL"):
		return grammar.Killed, says
	case strings.Contains(why, "SIGABRT"):
		return grammar.Aborted, says
	case strings.Contains(why, "SIGTERM"), strings.Contains(why, "SIGINT"), strings.Contains(why, "SIGHUP"), strings.Contains(why, "SIGQUIT"):
		return grammar.Terminated, says
	case strings.HasPrefix(why, "signal"):
		return grammar.Crashed, says
	case why == "exit code 0":
		return grammar.Warning, says
	}
	return grammar.Exited, says
}

// EndOf says the same of an end that is in words already.
func EndOf(why string) (grammar.Kind, string) {
	switch {
	case strings.Contains(why, "SIGABRT"):
		return grammar.Aborted, "was ended by " + why
	case strings.Contains(why, "SIGTERM"), strings.Contains(why, "SIGINT"), strings.Contains(why, "SIGHUP"), strings.Contains(why, "SIGQUIT"):
		return grammar.Terminated, "was ended by " + why
	case strings.HasPrefix(why, "exit code"):
		return grammar.Exited, "ended with " + why
	}
	return grammar.Warning, why
}

// LauncherSignalled says which signal the launcher got, by number or name, and what that means.
func LauncherSignalled(signal string) string {
	n, err := strconv.Atoi(signal)
	if err != nil {
		n, _ = strconv.Atoi(strings.TrimPrefix(SignalCode(signal), "-"))
	}
	why := map[int]string{
		1:  "its terminal or ssh session closed",
		2:  "somebody pressed Ctrl-C",
		15: "a scheduler, a parent process or an operator ended it",
	}[n]
	says := "The launcher itself got " + strings.TrimPrefix(Ending(strconv.Itoa(-n)), "")
	if why != "" {
		says += ": " + why
	}
	return says
}

// Barrier says what the counts of the store's barrier mean.
func Barrier(have, of int) (grammar.Kind, string) {
	if have > of {
		return grammar.Leftovers, fmt.Sprintf("%d processes came to the store for a job of %d: processes of another run use the same store", have, of)
	}
	return grammar.ClientsMissing, fmt.Sprintf("waited for all processes to reach the store: %d of %d came", have, of)
}

// Magic says who connects with a wrong magic number: its bytes may be the beginning of another protocol.
func Magic(hex string) string {
	n, err := strconv.ParseUint(hex, 16, 64)
	if err != nil {
		return ""
	}
	b := binary.LittleEndian.AppendUint64(nil, n)
	for _, c := range b {
		if c < ' ' || c > '~' {
			return ", so another job or an older run connects to NCCL's port"
		}
	}
	return fmt.Sprintf(", which reads %q: a foreign client, such as a metrics scrape or a port scan, connects to NCCL's port", string(b))
}

// NCCLResult puts a code that NCCL's functions return into words (ncclResult_t).
func NCCLResult(code int) string {
	names := []string{
		"success", "unhandled CUDA error", "unhandled system error", "internal error", "invalid argument", "invalid usage",
		"remote process exited or there was a network error", "in progress", "timeout",
	}
	if code < 0 || code >= len(names) {
		return "result " + strconv.Itoa(code)
	}
	return names[code]
}

// Own reports whether messages of a kind are about the process that prints them, where they name none.
func Own(k grammar.Kind) bool {
	switch k {
	case grammar.GPUHardware, grammar.LinkHardware, grammar.GPUProgram, grammar.GPUUnknown, grammar.GPUSetup, grammar.GPUMemory, grammar.SharedMemory, grammar.DiskFull, grammar.Storage,
		grammar.NotANumber, grammar.Crashed, grammar.RemoteError, grammar.NCCLError, grammar.ClientsMissing, grammar.StoreGone, grammar.StoreUnreached, grammar.PortTaken, grammar.Connect,
		grammar.ForeignClient, grammar.NetworkError, grammar.OtherLibrary, grammar.LibraryWaits, grammar.ServerWatchdog, grammar.Setup, grammar.Locked, grammar.WatchdogStuck, grammar.Returned, grammar.NCCLUsage, grammar.Aborted, grammar.Warning:
		return true
	}
	return false
}
