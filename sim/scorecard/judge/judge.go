// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package judge compares verdicts with what was wrong. It is the only place where a run's sealed answer meets the engine's
// verdict; what it gives, an Outcome, is all that anybody else gets to see of the answer.
package judge

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/sim/cluster"
)

// Judgement is what the comparison of verdict and answer gives.
type Judgement struct {
	Right      bool `json:"right"` // Class and culprit, or rightly nobody.
	ClassRight bool `json:"class_right"`
	CauseRight bool `json:"cause_right"`
	Top1       bool `json:"top1"` // The first-named is guilty: a rank, or where none is meant the path or host at fault.
	Top3       bool `json:"top3"` // One of the first three is.
	HostRight  bool `json:"host_right"`
	HostTop3   bool `json:"host_top3"`
	// Device: the first-named is guilty and the cause is the component at fault, on the NIC at fault where one is named.
	DeviceRight bool `json:"device_right"`
	DeviceTop3  bool `json:"device_top3"`
	GroupRight  bool `json:"group_right"` // The culprit, or a link or group that holds it.
	Unknown     bool `json:"unknown"`
	False       bool `json:"false_accusation"` // Somebody innocent is accused,
	Innocents   int  `json:"innocents"`        // so many ranks, links or groups.
	AllFound    bool `json:"all_found"`        // Every fault has an accused.
}

// Holds says whether what the verdict says is so: its class, and that the culprit is the one named first or is in the link, group or
// host named first; and nobody innocent is accused. This is what the confidence of a verdict is the probability of.
func (j *Judgement) Holds() bool {
	return !j.False && (j.Right || j.ClassRight && j.GroupRight)
}

// Places tells on which hosts ranks are.
type Places interface {
	World() int
	HostOf(rank int) int
	HostName(host int) string
	// Member gives the rank in the job of a communicator's member; false where there is none.
	Member(comm string, rank int) (int, bool)
}

// innocent are the classes that accuse nobody.
func innocent(c rca.Class) bool {
	switch c {
	case rca.Healthy, rca.Benign, rca.Unknown, rca.Imbalance, rca.GlobalSlow:
		return true
	}
	return false
}

// Judge compares a verdict with the sealed answer; effect tells whether the faults had any.
func Judge(v *rca.Verdict, a *cluster.Answer, effect bool, where Places) Judgement {
	accuses := len(v.Culprits) > 0 && !innocent(v.Class)
	j := Judgement{Unknown: v.Class == rca.Unknown}
	if len(a.Truths) == 0 || !effect {
		j.judgeQuiet(v, a, accuses, where)
		return j
	}
	j.ClassRight, j.CauseRight = classAndCause(a, v)
	if !slices.ContainsFunc(a.Truths, func(t cluster.Truth) bool { return len(t.Ranks) > 0 }) {
		j.Top1, j.Top3, j.HostRight, j.HostTop3, j.GroupRight = !accuses, !accuses, !accuses, !accuses, !accuses
		j.DeviceRight, j.DeviceTop3 = !accuses && j.CauseRight, !accuses && j.CauseRight
		if accuses {
			j.False, j.Innocents = true, len(v.Culprits)
		}
		j.AllFound = j.ClassRight
		j.Right = j.ClassRight && !accuses
		return j
	}
	found := make([]bool, len(a.Truths))
	// Where two disagree, naming both is right: which of them is wrong cannot be told.
	mutual := a.Truths[0].Mutual && slices.ContainsFunc(v.Culprits, func(c rca.Culprit) bool { return names(&a.Truths[0], &c) })
	for i := range v.Culprits {
		c := &v.Culprits[i]
		hit, group, device := false, false, false
		for k := range a.Truths {
			t := &a.Truths[k]
			if names(t, c) {
				hit, found[k] = true, true
				device = device || onDevice(t, c, v.Cause)
			}
			group = group || holds(t, c, where)
		}
		host := hit || onHost(a, c, where)
		if i == 0 {
			j.Top1, j.HostRight, j.DeviceRight, j.GroupRight = hit, host, device, hit || group
		}
		if i < 3 {
			j.Top3, j.HostTop3, j.DeviceTop3 = j.Top3 || hit, j.HostTop3 || host, j.DeviceTop3 || device
		}
		if accuses && !hit && !group && !mutual {
			j.False = true
			j.Innocents++
		}
	}
	j.AllFound = !slices.Contains(found, false)
	j.Right = j.Top1 && j.ClassRight && accuses
	return j
}

// judgeQuiet judges a run in which nothing happened, or a fault that changed little: naming that is no false accusation,
// and not naming it is right.
func (j *Judgement) judgeQuiet(v *rca.Verdict, a *cluster.Answer, accuses bool, where Places) {
	j.ClassRight = v.Class == rca.Healthy || v.Class == rca.Benign
	j.Right = !accuses && !v.Page
	if !accuses {
		return
	}
	if len(a.Truths) > 0 {
		j.ClassRight, j.CauseRight = classAndCause(a, v)
	}
	for i := range v.Culprits {
		c := &v.Culprits[i]
		hit := slices.ContainsFunc(a.Truths, func(t cluster.Truth) bool { return names(&t, c) })
		group := hit || slices.ContainsFunc(a.Truths, func(t cluster.Truth) bool { return holds(&t, c, where) })
		if !group {
			j.False = true
			j.Innocents++
		}
		if i == 0 {
			j.Top1, j.GroupRight, j.HostRight = hit, group, hit || onHost(a, c, where)
		}
		j.Top3 = j.Top3 || (i < 3 && hit)
	}
}

func classAndCause(a *cluster.Answer, v *rca.Verdict) (class, cause bool) {
	for _, t := range a.Truths {
		if slices.Contains(t.Classes, string(v.Class)) {
			class = true
			cause = cause || len(t.Causes) == 0 || slices.Contains(t.Causes, string(v.Cause))
		}
	}
	return class, cause
}

// names tells whether a culprit is the one of the truth: a rank of it, the host where all of the host is meant, or the very
// path.
func names(t *cluster.Truth, c *rca.Culprit) bool {
	if c.Rank >= 0 {
		return slices.Contains(t.Ranks, c.Rank)
	}
	if c.Host == "" {
		return t.Place != "" && strings.Contains(c.Group, t.Place)
	}
	return t.Place == c.Host
}

// onDevice tells whether a guilty culprit is named with the component at fault.
func onDevice(t *cluster.Truth, c *rca.Culprit, cause rca.Cause) bool {
	if len(t.Causes) > 0 && !slices.Contains(t.Causes, string(cause)) {
		return false
	}
	return t.Component != "nic" || c.NIC == "" || c.NIC == t.Place
}

// holds tells whether a culprit without a rank is a link, path or group with a rank of the truth in it; or a rank is named
// as one of all on a host that has one. A group's host counts for its ranks only where these are not listed.
func holds(t *cluster.Truth, c *rca.Culprit, where Places) bool {
	if c.Rank >= 0 {
		return c.Group != "" && slices.ContainsFunc(t.Ranks, func(r int) bool { return where.HostName(where.HostOf(r)) == c.Group })
	}
	if m := unseenMember.FindStringSubmatch(c.Group); m != nil {
		n, err := strconv.Atoi(m[2])
		if r, ok := where.Member(m[3], n); err == nil && ok && slices.Contains(t.Ranks, r) {
			return true
		}
		return holds(t, &rca.Culprit{Rank: -1, Group: m[1]}, where)
	}
	words := strings.FieldsFunc(c.Group, func(r rune) bool { return r == ' ' || r == ',' || r == '>' || r == ':' })
	if !listsRanks.MatchString(c.Group) {
		words = append(words, c.Host)
	}
	for i, w := range words {
		words[i] = strings.TrimSuffix(w, "-") // Of an arrow's shaft.
	}
	for _, r := range t.Ranks {
		if slices.Contains(words, strconv.Itoa(r)) || slices.Contains(words, where.HostName(where.HostOf(r))) {
			return true
		}
	}
	return false
}

// unseenMember matches a link to somebody of whom only the place in a communicator is known, which is no rank of the job.
var unseenMember = regexp.MustCompile(`^(link between .*) and rank (\d+) of (\S+), which was not seen$`)

// listsRanks matches a group that says of which ranks it is, all of them.
var listsRanks = regexp.MustCompile(`^ranks? \d+(, \d+)*( of .*)?$`)

func onHost(a *cluster.Answer, c *rca.Culprit, where Places) bool {
	host := c.Host
	if c.Rank >= 0 && c.Rank < where.World() {
		host = where.HostName(where.HostOf(c.Rank))
	}
	if host == "" {
		return false
	}
	for _, t := range a.Truths {
		for _, r := range t.Ranks {
			if where.HostName(where.HostOf(r)) == host {
				return true
			}
		}
	}
	return false
}
