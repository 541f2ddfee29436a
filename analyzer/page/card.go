// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/culprit-project/culprit/analyzer/incident"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/words"
)

// Notified is what Alertmanager does with the alerts of an incident.
type Notified struct {
	Receivers []string // By the names in its configuration.
	Silenced  bool     // All of them are.
}

// Card is what somebody who was woken needs first: who, where, since when, what to do, and whose job it is.
type Card struct {
	Tone    string // Class of its colour: critical, raised, calm.
	Badge   string // Whether people are woken.
	Place   string // Host, GPU and NIC; or what there is instead of one.
	Cause   string
	Finding string // The verdict's sentence. How long ranks wait changes, and is a fact of its own.
	Why     string // What sets the culprit apart, where the sentence does not say it.
	Since   time.Time
	Began   string // What began at Since; empty: nothing that has a beginning.
	Facts   []CardFact
}

// CardFact is one line of a card.
type CardFact struct{ Name, Text, URL string }

func newCard(inc *incident.Incident, o *Options) *Card {
	v := inc.Verdict
	if v == nil {
		return &Card{Tone: "calm", Badge: "Nobody paged yet", Place: "Analysis under way", Finding: "There is no verdict yet.", Facts: facts(inc, o)}
	}
	c := &Card{Place: headline(v), Cause: words.Cause(v.Cause), Finding: words.WithoutWait(v.Summary), Facts: facts(inc, o)}
	c.Tone, c.Badge = alarm(inc)
	if len(v.Culprits) == 1 && v.Culprits[0].Why != "" && !strings.Contains(v.Summary, ofChannel.ReplaceAllString(v.Culprits[0].Why, "")) {
		c.Why = words.Opener(v.Culprits[0].Why) + "."
	}
	if v.Cause == rca.CauseUnknown {
		c.Cause = words.Class(v.Class)
	}
	if !o.Alone {
		c.Since, c.Began = onset(inc)
	}
	return c
}

// ofChannel finds what a culprit's reason has and the sentence of its verdict has not.
var ofChannel = regexp.MustCompile(` on channel [0-9]+`)

// alarm says who is woken, and how loudly the card says so.
func alarm(inc *incident.Incident) (tone, badge string) {
	v := inc.Verdict
	switch {
	case v.Page && v.Class.StandsStill():
		return "critical", "Critical: on-call was paged"
	case v.Page:
		return "raised", "Warning: on-call was paged"
	case v.PageIn > 0:
		return "raised", "Suspected: it pages after another " + seconds(v.PageIn) + " without progress"
	}
	return "calm", "Nobody was paged"
}

// severity is how loud an incident is, as the list filters it.
func severity(inc *incident.Incident) string {
	v := inc.Verdict
	switch {
	case v == nil || !v.Page && v.PageIn == 0:
		return "none"
	case v.Page && v.Class.StandsStill():
		return "critical"
	}
	return "warning"
}

// onset gives when the trouble began, and what began then.
func onset(inc *incident.Incident) (time.Time, string) {
	v := inc.Verdict
	switch {
	case v == nil || v.Class == rca.Benign || v.Class == rca.Healthy:
		return inc.OpenedAt, "Seen"
	case inc.Since != nil && v.Class.StandsStill():
		return *inc.Since, "Waiting"
	case inc.Since != nil:
		return *inc.Since, "Without progress"
	case v.Class.StandsStill():
		return inc.OpenedAt, "Stalled"
	case v.Class == rca.Unknown:
		return inc.OpenedAt, "In trouble"
	}
	return inc.OpenedAt, "Slow"
}

// network are the causes for which the NIC is part of the place.
var network = []rca.Cause{rca.CauseNetworkSend, rca.CauseReceiver, rca.CausePCIe, rca.CauseProxy}

// nobody is the headline of verdicts that blame no machine.
var nobody = map[rca.Class]string{
	rca.Unknown: "No culprit is known", rca.Benign: "Nothing is broken", rca.Healthy: "Nothing is wrong",
	rca.Imbalance: "Uneven work, no bad machine", rca.GlobalSlow: "All ranks are slower, no bad machine",
}

// headline says where to go: host, GPU and NIC or, where these are not known, the ranks.
func headline(v *rca.Verdict) string {
	if len(v.Culprits) == 0 || v.Class == rca.Benign || v.Class == rca.Imbalance || v.Class == rca.GlobalSlow {
		return cmp.Or(nobody[v.Class], "No rank is named")
	}
	first := &v.Culprits[0]
	var hosts, gpus []string
	var numbers []int
	for i := range v.Culprits {
		c := &v.Culprits[i]
		if c.Host != "" && !slices.Contains(hosts, c.Host) {
			hosts = append(hosts, c.Host)
		}
		if c.GPU != "" && c.Host == first.Host && !slices.Contains(gpus, c.GPU) {
			gpus = append(gpus, c.GPU)
		}
		if c.Rank >= 0 {
			numbers = append(numbers, c.Rank)
		}
	}
	var parts []string
	switch {
	case len(hosts) > hostsShow:
		parts = append(parts, fmt.Sprintf("%s and %s more", strings.Join(hosts[:hostsShow], ", "), plural(len(hosts)-hostsShow, "host", "hosts")))
	case len(hosts) > 0:
		parts = append(parts, strings.Join(hosts, ", "))
	}
	if len(hosts) == 1 && len(gpus) == 1 {
		parts = append(parts, "GPU "+gpus[0])
	} else if len(hosts) == 1 && len(gpus) > 1 {
		parts = append(parts, "GPUs "+strings.Join(gpus, ", "))
	}
	if len(v.Culprits) == 1 && first.NIC != "" && slices.Contains(network, v.Cause) {
		parts = append(parts, "NIC "+first.NIC)
	}
	if first.Group != "" && first.Group != first.Host {
		parts = append(parts, first.Group)
	} else if len(numbers) > 0 && (len(gpus) == 0 || len(hosts) != 1) {
		parts = append(parts, named(numbers, 0))
	}
	return strings.Join(parts, " · ")
}

// facts are the lines of a card, the most urgent first.
func facts(inc *incident.Incident, o *Options) []CardFact {
	var out []CardFact
	add := func(name, text, url string) {
		if text != "" {
			out = append(out, CardFact{name, text, url})
		}
	}
	v := inc.Verdict
	if v != nil && v.Stalled > 0 {
		add("Reach", blast(v), "")
	} else if v != nil && v.Slowdown > 0 {
		add("Reach", fmt.Sprintf("An iteration takes %.2f times as long as without the culprit.", v.Slowdown), "")
	}
	if o.Alone {
		return out
	}
	job := inc.Job().String()
	if w := inc.Workload; w != nil && w.SlurmJob != "" && w.SlurmJob != inc.JobID {
		job += ", Slurm job " + w.SlurmJob
	}
	jobURL := ""
	if inc.JobID != "" {
		jobURL = "../" + JobURL(inc.Job())
	}
	add("Job", job, jobURL)
	add("Owner", cmp.Or(Owner(inc), "Not recorded"), "")
	if n := o.Notified; n != nil {
		text := strings.Join(n.Receivers, ", ")
		if n.Silenced {
			text = "Nobody: the alert is silenced."
		}
		add("Notified", text, "")
	}
	add("Cost", cost(inc, o.Now), "")
	if hosts := accusedHosts(inc); len(hosts) == 1 {
		text, url := "It was to blame in no other incident that is kept.", ""
		if n := len(o.Similar); n > 0 {
			text = fmt.Sprintf("It was to blame in %s, the last %s.", plural(n, "other incident", "other incidents"), ago(o.Similar[0].OpenedAt, o.Now))
			url = "../" + Filter{Host: hosts[0]}.query(1)
		}
		add("This host", text, url)
	}
	return out
}

// Owner says whose job an incident is of: all that alerts and processes tell.
func Owner(inc *incident.Incident) string {
	var parts []string
	add := func(name, value string) {
		if text := name + " " + value; value != "" && !slices.Contains(parts, text) {
			parts = append(parts, text)
		}
	}
	for _, label := range ownerLabels {
		add(label, labelled(inc, label))
	}
	if w := inc.Workload; w != nil {
		add("namespace", w.Namespace)
		if labelled(inc, "user") == "" {
			add("user", w.User)
		}
	}
	return strings.Join(parts, ", ")
}

// ownerLabels are the labels that say whose a job is, the likeliest to be known by people first.
var ownerLabels = []string{"team", "account", "user", "namespace"}

// labelled gives the label of an incident's alerts or, where they have none, its triggers.
func labelled(inc *incident.Incident, name string) string {
	if v := inc.Labels[name]; v != "" {
		return v
	}
	for i := range inc.Triggers {
		if v := inc.Triggers[i].Labels[name]; v != "" {
			return v
		}
	}
	return ""
}

// cost says how many GPU-hours an incident has cost: all GPUs of a job that stands still, and of a slow job the share that it takes longer.
// A rank has a GPU.
func cost(inc *incident.Incident, now time.Time) string {
	v := inc.Verdict
	if v == nil || !v.Page {
		return ""
	}
	gpus := max(v.WorldSize, len(inc.Ranks))
	since, _ := onset(inc)
	end := now
	if inc.ResolvedAt != nil {
		end = *inc.ResolvedAt
	}
	lost := max(0, end.Sub(since))
	share, how := 1.0, "stood still for"
	switch {
	case v.Class.StandsStill() || v.Class == rca.Unknown && v.Stalled > 0:
	case v.Slowdown > 1:
		share, how = 1-1/v.Slowdown, "were slower for"
	default:
		return ""
	}
	hours := float64(gpus) * lost.Hours() * share
	if gpus == 0 || lost == 0 {
		return ""
	}
	return fmt.Sprintf("About %s: %s %s %s.", gpuHours(hours), plural(gpus, "GPU", "GPUs"), how, words.Span(lost))
}

func gpuHours(h float64) string {
	switch {
	case h < 1:
		return fmt.Sprintf("%.0f GPU-minutes", max(1, h*60))
	case h < 9.95:
		return fmt.Sprintf("%.1f GPU-hours", h)
	}
	return count(int(h+0.5)) + " GPU-hours"
}

// ago says how long before now something was.
func ago(at, now time.Time) string {
	return words.Span(max(0, now.Sub(at)).Round(time.Second)) + " ago"
}
