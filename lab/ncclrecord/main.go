// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// ncclrecord records the callbacks of NCCL libraries and states what holds in them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/culprit-project/culprit/lab/ncclrecord/job"
	"github.com/culprit-project/culprit/lab/ncclrecord/recording"
	"github.com/culprit-project/culprit/lab/ncclrecord/rules"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // A second signal ends the process, whatever it is in.
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ncclrecord:", err)
		os.Exit(1)
	}
}

const usage = `ncclrecord record [flags] VERSION…   record every case on these libraries
ncclrecord store [flags] DIR FILE   put what the recorder wrote in a folder, such as sim/gpu/run.sh's, into a file
ncclrecord document [flags]         print what the recordings show of every rule
ncclrecord bench [flags]            print what the plugin costs inside NCCL
`

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("no command\n%s", usage)
	}
	switch args[0] {
	case "record":
		return record(ctx, args[1:])
	case "store":
		return store(args[1:])
	case "document":
		return document(args[1:], os.Stdout)
	case "bench":
		return bench(ctx, args[1:], os.Stdout)
	default:
		return fmt.Errorf("no command %q\n%s", args[0], usage)
	}
}

func record(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("record", flag.ExitOnError)
	cache := flags.String("libraries", ".cache/nccl", "folder of VERSION/libnccl.so.2 and VERSION/layout")
	layouts := flags.String("layouts", "", "folder of the layouts, if they are elsewhere")
	program := flags.String("program", "bin/ncclrun", "program that does the operations")
	bin := flags.String("bin", "bin", "folder of libnccl-recorder.so")
	out := flags.String("out", "lab/ncclrecord/testdata", "folder of the recordings")
	cases := flags.String("cases", "", "only these cases, separated by commas")
	again := flags.Bool("again", false, "record again what is stored")
	if err := flags.Parse(args); err != nil {
		return err
	}
	recorder, err := filepath.Abs(filepath.Join(*bin, "libnccl-recorder.so"))
	if err != nil {
		return err
	}
	runner := &job.Runner{Program: *program, Recorder: recorder, Older: filepath.Join(filepath.Dir(recorder), "..", "build", "ncclrecord")}
	var errs []error
	for _, version := range flags.Args() {
		lib := job.Library{Version: version, Path: filepath.Join(*cache, version, "libnccl.so.2"), Layout: filepath.Join(*cache, version, "layout")}
		if *layouts != "" {
			lib.Layout = filepath.Join(*layouts, version)
		}
		selected := slices.DeleteFunc(slices.Clone(job.Cases), func(c job.Case) bool {
			return !c.Suits(version) || *cases != "" && !slices.Contains(strings.Split(*cases, ","), c.Name)
		})
		errs = append(errs, recordAll(ctx, runner, lib, selected, *again, filepath.Join(*out, version+".gz")))
	}
	return errors.Join(errs...)
}

// recordAll runs the cases that the file lacks, or all of them, and puts each into the file as soon as it is recorded.
func recordAll(ctx context.Context, runner *job.Runner, lib job.Library, cases []job.Case, again bool, file string) error {
	all, err := recording.Load(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var errs []error
	for _, c := range cases {
		at := slices.IndexFunc(all, func(r *recording.Recording) bool { return r.Case == c.Name })
		if at >= 0 && !again {
			continue
		}
		r, err := runner.Run(ctx, lib, c)
		if err != nil {
			fmt.Fprintln(os.Stderr, "ncclrecord:", err)
			errs = append(errs, err)
			continue
		}
		if at >= 0 {
			all[at] = r
		} else {
			all = append(all, r)
		}
		slices.SortStableFunc(all, func(a, b *recording.Recording) int { return job.Order(a.Case) - job.Order(b.Case) })
		if err := recording.Store(file, all); err != nil {
			return err
		}
		fmt.Printf("%s %s: %d calls\n", lib.Version, c.Name, r.Calls())
	}
	return errors.Join(errs...)
}

// store makes a file of one recording, of a healthy job that ran elsewhere.
func store(args []string) error {
	flags := flag.NewFlagSet("store", flag.ExitOnError)
	name := flags.String("case", "alltoall", "name of the case")
	ops := flags.String("ops", "", "its operations, for people")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 2 {
		return fmt.Errorf("store wants a folder and a file\n%s", usage)
	}
	processes, err := recording.ReadDir(flags.Arg(0))
	if err != nil {
		return err
	}
	settings := map[string]string{"ranks": strconv.Itoa(len(processes)), "ops": *ops, "rounds": "1", "fault": string(job.None)}
	return recording.Store(flags.Arg(1), []*recording.Recording{{Case: *name, Settings: settings, Processes: processes}})
}

func document(args []string, to io.Writer) error {
	flags := flag.NewFlagSet("document", flag.ExitOnError)
	dir := flags.String("recordings", "lab/ncclrecord/testdata", "folder of the recordings")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return rules.Document(to, *dir, job.Culprit)
}
