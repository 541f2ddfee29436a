// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/alecthomas/kingpin/v2"

	"github.com/culprit-project/culprit/sim/catalog"
)

func listCommand(app *kingpin.Application, commands map[string]func(context.Context) error) {
	cmd := app.Command("list", "List workloads, what can be changed about them, and faults with their parameters.")
	commands[cmd.FullCommand()] = func(context.Context) error { return list(os.Stdout) }
}

func list(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprint(w, "Workloads (--workload)\n  NAME\tRANKS\tHOSTS\t\n")
	for _, l := range catalog.Workloads() {
		fmt.Fprintf(w, "  %s\t%d\t%d\t%s\n", l.Name, l.Ranks(), l.Hosts(), l.Help)
	}
	fmt.Fprint(w, "\nChanges to a workload (--set NAME=VALUE)\n")
	for _, s := range catalog.Settings() {
		fmt.Fprintf(w, "  %s\t%s\n", s.Name, s.Help)
	}
	fmt.Fprintf(w, "\nFaults (--fault)\n  %s\n\n  KIND\tSEVERITY\tDEFAULT\tOTHERS\t\n", catalog.Parameters)
	for _, k := range catalog.FaultKinds() {
		severity, standard, others := "-", "-", ""
		if k.Severity != catalog.NoSeverity {
			severity, standard = k.Severity.String(), fmt.Sprint(k.Default)
		}
		if k.Delay > 0 {
			others += fmt.Sprintf("delay=%v ", k.Delay)
		}
		if k.Peer {
			others += "peer (needed) "
		}
		if k.Slot {
			others += "slot=dp "
		}
		if k.Begins {
			others += "iteration=0 "
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", k.Kind, severity, standard, others, k.Help)
	}
	return w.Flush()
}
