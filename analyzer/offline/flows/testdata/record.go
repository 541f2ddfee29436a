//go:build ignore

// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Record samples the byte counters of the flows in a running job's trace files and writes them as `analyze` reads them:
// what a collector of queue pairs' or sockets' counters would have seen of the job. record.sh runs it.
//
//	go run record.go DIR COMMUNICATOR INTERVAL LENGTH >flows.csv
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/culprit-project/culprit/trace"
)

type flow struct {
	rank, peer int32
	channel    uint16
}

func main() {
	dir, comm := os.Args[1], os.Args[2]
	interval, err := time.ParseDuration(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	length, err := time.ParseDuration(os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	files := open(dir)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	fmt.Fprintln(out, "time_seconds,rank,peer,channel,bytes_total")
	was, snaps := map[flow]uint64{}, make([]trace.Snapshot, len(files))
	begin := time.Now()
	tick := time.NewTicker(interval)
	for last := false; !last; {
		now := (<-tick.C).Sub(begin)
		last = now > length
		for i, f := range files {
			s := &snaps[i]
			at := time.Since(begin)
			if f.Snapshot(s) != nil {
				continue
			}
			for k := range s.Flows {
				fl := &s.Flows[k]
				rank, ok := inside(s, fl, comm)
				if !ok || !fl.IsSend {
					continue
				}
				key := flow{rank, fl.Peer, fl.Channel}
				// Intervals without traffic are left out, but for the first, which is what the counter begins at, and
				// the last, which says for how long there was none.
				if before, known := was[key]; !known || before != fl.TotalBytes || last {
					fmt.Fprintf(out, "%.4f,%d,%d,%d,%d\n", at.Seconds(), rank, fl.Peer, fl.Channel, fl.TotalBytes)
					was[key] = fl.TotalBytes
				}
			}
		}
	}
}

// inside gives the flow's rank in the communicator of that name, which has all ranks of the job.
func inside(s *trace.Snapshot, f *trace.Flow, name string) (int32, bool) {
	for i := range s.Comms {
		if c := &s.Comms[i]; c.Index == f.CommIndex && c.Generation == f.CommGeneration && c.Name == name {
			return c.Rank, true
		}
	}
	return 0, false
}

func open(dir string) []*trace.File {
	var files []*trace.File
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, trace.Suffix) {
			f, err := trace.Open(path)
			if err != nil {
				log.Fatal(path, ": ", err)
			}
			files = append(files, f)
		}
		return nil
	})
	if err != nil || len(files) == 0 {
		log.Fatal("no trace files below ", dir, ": ", err)
	}
	return files
}
