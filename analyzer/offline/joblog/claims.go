// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package joblog

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
)

// Claim is what a rank's log says of others: that they did not come to where it waited for them.
type Claim struct {
	By     int // -1 unknown.
	Absent []int
	What   string // What they did not come to: "monitored_barrier", "the store's key index_built/rank_1".
}

// Print is what the log says that a rank called, from the comparison of collectives that TORCH_DISTRIBUTED_DEBUG=DETAIL makes.
type Print struct {
	Rank  int
	Own   bool // It says so itself.
	Seq   int64
	Type  string
	Shape string
	Dtype string
}

var (
	failedBarrier  = regexp.MustCompile(`\[Rank (\d+)\]: Ranks? ([\d, ]+) failed to pass monitoredBarrier`)
	reachedBarrier = regexp.MustCompile(`Rank (\d+) successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank (\d+)`)
	fingerprint    = regexp.MustCompile(`(but )?Rank (\d+) is running (?:inconsistent )?collective: CollectiveFingerPrint\((?:SequenceNumber=(\d+))?(?:, ?)?OpType=(\w+)(?:, TensorShape=\[([\d, ]*)\], TensorDtypes=(\w+))?`)
	missingKey     = regexp.MustCompile(`(?:wait timeout after \d+ ?ms, keys: |[Tt]imeout waiting for key: |Timed out waiting for key )/?([^\s,]+)`)
	rankInKey      = regexp.MustCompile(`(?:^|/)rank[_-]?(\d+)(?:$|/)`)
	glooKey        = regexp.MustCompile(`(?:^|/)(?:cpu|cuda|gpu)//\d+/(\d+)$`) // Where gloo's rank leaves its address.
	uniqueID       = regexp.MustCompile(`\[(\d+)\] is setting up NCCL communicator and retrieving ncclUniqueId from \[(\d+)\] via c10d key-value store by key '[^']*', but store->get\('[^']*'\) got error: (?:Socket Timeout|[Ww]ait timeout|[Tt]imeout)`)
)

// claims takes what ranks say of each other.
func (p *parser) claims() {
	if !bytes.Contains(p.text, []byte("monitoredBarrier")) && !bytes.Contains(p.text, []byte("CollectiveFingerPrint")) &&
		!bytes.Contains(p.text, []byte("key")) && !bytes.Contains(p.text, []byte("ncclUniqueId")) {
		return
	}
	const most = 4096
	for _, m := range failedBarrier.FindAllSubmatch(p.text, most) {
		p.claim(Claim{By: int(number(m[1])), Absent: ranks(string(m[2])), What: "monitored_barrier"})
	}
	for _, m := range reachedBarrier.FindAllSubmatch(p.text, most) {
		p.claim(Claim{By: int(number(m[1])), What: "monitored_barrier"})
	}
	for _, m := range missingKey.FindAllSubmatchIndex(p.text, most) {
		key := strings.TrimRight(string(p.text[m[2]:m[3]]), `."')]`)
		// The store's clients put the group's name before the key.
		if _, rest, ok := strings.Cut(key, "//"); ok {
			key = rest
		}
		who, _ := p.speaker(m[0])
		c := Claim{By: who.rank, What: "the store's key " + key}
		if r := glooKey.FindStringSubmatch(key); r != nil {
			c.Absent, c.What = ranks(r[1]), "the making of a process group"
		} else if r := rankInKey.FindStringSubmatch(key); r != nil {
			c.Absent = ranks(r[1])
		}
		p.claim(c)
	}
	for _, m := range uniqueID.FindAllSubmatchIndex(p.text, most) {
		by, from := int(number(p.text[m[2]:m[3]])), int(number(p.text[m[4]:m[5]]))
		// Both are places in a group. Where the speaker's is its rank, the other's is taken for one, too.
		if who, ok := p.speaker(m[0]); ok && who.rank == by && by != from {
			p.claim(Claim{By: by, Absent: []int{from}, What: "the start of an NCCL communicator"})
		}
	}
	p.prints()
}

func (p *parser) claim(c Claim) {
	if c.By >= maxRank {
		return
	}
	for i := range p.log.Claims {
		if have := &p.log.Claims[i]; have.By == c.By && have.What == c.What {
			if len(have.Absent) == 0 {
				have.Absent = c.Absent
			}
			return
		}
	}
	p.log.Claims = append(p.log.Claims, c)
}

// prints takes what the comparison of collectives shows of each rank; what a rank says of itself goes before what another
// says of it.
func (p *parser) prints() {
	const most = 4096
	for _, m := range fingerprint.FindAllSubmatch(p.text, most) {
		f := Print{Own: len(m[1]) == 0, Rank: int(number(m[2])), Seq: number(m[3]), Type: string(m[4]), Shape: string(m[5]), Dtype: string(m[6])}
		if f.Rank < 0 || f.Rank >= maxRank {
			continue
		}
		known := false
		for i := range p.log.Prints {
			if have := &p.log.Prints[i]; have.Rank == f.Rank {
				known = true
				if f.Own && !have.Own {
					*have = f
				}
			}
		}
		if !known {
			p.log.Prints = append(p.log.Prints, f)
		}
	}
}

// elements is the number of a shape's elements; -1 unknown.
func (f *Print) elements() int64 {
	if f.Shape == "" {
		return -1
	}
	n := int64(1)
	for part := range strings.SplitSeq(f.Shape, ",") {
		d, err := strconv.ParseInt(strings.TrimSpace(part), 10, 32)
		if err != nil || n > 1<<40 {
			return -1
		}
		n *= d
	}
	return n
}
