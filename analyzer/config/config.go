// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package config is the analyzer's configuration: a YAML file whose every field has a default, so that an empty file,
// or none, serves.
package config

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"text/template"
	"time"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"github.com/culprit-project/culprit/analyzer/identity"
	"github.com/culprit-project/culprit/analyzer/rca"
	"github.com/culprit-project/culprit/analyzer/rca/topology"
)

// Config is the whole configuration. Default gives the values of fields that a file leaves out.
type Config struct {
	// ExternalURL is the address under which people reach the analyzer; links in pages start with it.
	ExternalURL string `yaml:"external_url"`
	// ExternalCommand is what people run before that address answers, such as kubectl port-forward; alerts show it above the link.
	ExternalCommand string `yaml:"external_command"`
	// RunbookURL is a template for the runbook_url annotation, over .Class and .Cause of the verdict.
	RunbookURL string `yaml:"runbook_url"`
	// GrafanaURL is where the shipped dashboards are; empty: pages carry no links to them.
	GrafanaURL string `yaml:"grafana_url"`
	// Links are further places that pages lead to, such as a job's log.
	Links []Link `yaml:"links"`

	Prometheus   Prometheus   `yaml:"prometheus"`
	Alertmanager Alertmanager `yaml:"alertmanager"`
	Exporters    Exporters    `yaml:"exporters"`
	Labels       Labels       `yaml:"labels"`
	Analysis     Analysis     `yaml:"analysis"`
	Incidents    Incidents    `yaml:"incidents"`
	Evidence     Evidence     `yaml:"evidence"`
	Notify       Notify       `yaml:"notify"`
	Stacks       Stacks       `yaml:"stacks"`
	Actions      Actions      `yaml:"actions"`
}

// Link is a place that pages of incidents lead to. URL is a template over LinkFields.
type Link struct {
	Text string `yaml:"text"`
	URL  string `yaml:"url"`

	address *template.Template
}

// LinkFields are what an address of Links is filled with, each escaped for an address and empty where it is not known.
type LinkFields struct {
	JobID, Incident, Rank, Host, Pod, Namespace, SlurmJob, User string
	From, To                                                    string // Around the incident, milliseconds of Unix time; To is "now" while it is open.
}

// Fill gives the address for these fields.
func (l *Link) Fill(f LinkFields) (string, error) {
	for _, field := range []*string{&f.JobID, &f.Incident, &f.Rank, &f.Host, &f.Pod, &f.Namespace, &f.SlurmJob, &f.User} {
		if *field = url.QueryEscape(*field); *field == "." || *field == ".." {
			*field = "" // As a part of a path they lead elsewhere, escaped or not.
		}
	}
	var b strings.Builder
	if err := l.address.Execute(&b, f); err != nil {
		return "", fmt.Errorf("filling the link %q: %w", l.Text, err)
	}
	return b.String(), nil
}

// Prometheus is where series are asked for: any server with Prometheus's query API.
type Prometheus struct {
	URL        string                      `yaml:"url"`
	HTTPConfig promconfig.HTTPClientConfig `yaml:"http_config"`
	Timeout    model.Duration              `yaml:"timeout"`   // Of one query.
	MaxBytes   int64                       `yaml:"max_bytes"` // Of one answer, unpacked.
	// Lookback is how far back a process that is scraped no more still counts as part of its job.
	Lookback model.Duration `yaml:"lookback"`
	// ScrapeInterval is that of the exporters; windows of rates follow it. 0: as seen in Prometheus.
	ScrapeInterval model.Duration `yaml:"scrape_interval"`
	// RefreshInterval is how often the membership of all jobs is read ahead, for when Prometheus is down in need.
	RefreshInterval model.Duration `yaml:"refresh_interval"`
	// ExporterSelector are matchers that the series of our exporters alone have. Anything that is scraped can expose series of their names.
	ExporterSelector string `yaml:"exporter_selector"`
	// OnlyTargets: where Prometheus lists exporters among its targets, series of others are left out. Any that came by remote write, or from a
	// Pushgateway, may call themselves an exporter's.
	OnlyTargets bool `yaml:"only_targets"`
	// Scrapers tell the targets where URL does not, as Mimir and VictoriaMetrics' vmselect.
	Scrapers []Scraper `yaml:"scrapers"`
	// RecordedSelector are matchers that series of rules alone have, ALERTS among them.
	RecordedSelector string  `yaml:"recorded_selector"`
	Queries          Queries `yaml:"queries"`
	// JobLabels are the labels of series that belong to a job's identity beside job_id, from labels.job.
	JobLabels []string `yaml:"-"`
	// HostLabel is that of exporters.host_label.
	HostLabel string `yaml:"-"`
	// NodeEvidence are queries for what other exporters know of a job's nodes: by default dcgm-exporter and node_exporter.
	NodeEvidence []FactQuery `yaml:"node_evidence"`
}

// Scraper is who scrapes exporters: a Prometheus, its agent, or vmagent.
type Scraper struct {
	URL        string                      `yaml:"url"`
	HTTPConfig promconfig.HTTPClientConfig `yaml:"http_config"`
}

// UnmarshalYAML implements yaml.Unmarshaler: it sets what a scraper leaves out.
func (s *Scraper) UnmarshalYAML(unmarshal func(any) error) error {
	type plain Scraper
	*s = Scraper{HTTPConfig: promconfig.DefaultHTTPClientConfig}
	return unmarshal((*plain)(s))
}

// Queries are the PromQL selectors, to be overridden where names are relabelled. Each is a template over .Selector,
// the label matchers without braces; Pace, Waits, Kernels and RunDelay over .Rate, too, a window for rates, and but for Pace over
// .Offset, which is empty or an offset modifier; LongestWait and LongestPause over .Window, a duration.
type Queries struct {
	Triggers  string `yaml:"triggers"`  // Gives the triggers that fire; the value is when each began, in seconds of Unix time, or 1.
	Evaluated string `yaml:"evaluated"` // Gives the same triggers; the value is when a rule last found each true, in seconds of Unix time.
	Processes string `yaml:"processes"` // Gives culprit_nccl_process_info.
	Comms     string `yaml:"comms"`     // Gives culprit_nccl_comm_info.
	Up        string `yaml:"up"`        // Gives culprit_nccl_process_up.
	Exporters string `yaml:"exporters"` // Gives a series of each exporter that is scraped, with its label instance.
	Ages      string `yaml:"ages"`      // Gives culprit_nccl_op_age_seconds.
	Stalled   string `yaml:"stalled"`   // Gives culprit_nccl_stall_seconds.
	Calls     string `yaml:"calls"`     // Gives culprit_nccl_call_open_seconds.
	Started   string `yaml:"started"`   // Gives culprit_nccl_ops_started_total.
	Completed string `yaml:"completed"` // Gives culprit_nccl_ops_completed_total.
	Pace      string `yaml:"pace"`      // Gives how many operations a rank completes per second, one value for the job.
	Waits     string `yaml:"waits"`     // Gives how much each rank (label rank) waits for what (label reason), per second.
	Kernels   string `yaml:"kernels"`   // Gives how long each rank is in which kernels (label function), per second.
	// RunDelay gives the share of time in which each rank's (label rank) proxy thread was ready to run and got no CPU, where it matters.
	RunDelay string `yaml:"run_delay"`
	// Slowdown gives how many times longer a job's iterations take than they did when it was healthy, one value for the job.
	Slowdown string `yaml:"slowdown"`
	// LongestWait gives the longest wait of a job within Window that ended by itself, in seconds, one value for the job.
	LongestWait string `yaml:"longest_wait"`
	// LongestPause gives the longest time within Window in which no rank of a job called anything, and which ended, in the same way.
	LongestPause string `yaml:"longest_pause"`
}

// Alertmanager is where verdicts are posted and triggers are looked up. Every URL is one peer of a cluster: all get
// every alert.
type Alertmanager struct {
	URLs []string `yaml:"urls"`
	// ExternalURL is where people reach Alertmanager; empty: pages carry no link by which to silence an incident.
	ExternalURL string                      `yaml:"external_url"`
	HTTPConfig  promconfig.HTTPClientConfig `yaml:"http_config"`
	Timeout     model.Duration              `yaml:"timeout"`
	// PollInterval is how often triggers are looked up, here and in Prometheus, in case a notification of one or of its end got lost.
	PollInterval model.Duration `yaml:"poll_interval"`
	// PeerTimeout is the --cluster.peer-timeout of Alertmanagers that form a cluster.
	PeerTimeout model.Duration `yaml:"peer_timeout"`
}

// Exporters says how to reach culprit-exporter on the nodes.
type Exporters struct {
	// Address is a template over the labels of culprit_nccl_process_info that gives an exporter's base URL.
	Address string `yaml:"address"`
	// HostLabel is a label that the scrape configuration gives each target, such as instance or node: a host is then called by its
	// value, without a port. Empty: by what its exporter says.
	HostLabel string `yaml:"host_label"`
	// Instances are those that a trigger may name although Prometheus does not scrape them: all that can be asked without it.
	Instances  []string                    `yaml:"instances"`
	HTTPConfig promconfig.HTTPClientConfig `yaml:"http_config"`
	Timeout    model.Duration              `yaml:"timeout"` // Of one request for present state.
	// HistoryTimeout is that of one for finished work, which can be tens of megabytes.
	HistoryTimeout model.Duration `yaml:"history_timeout"`
	Retries        int            `yaml:"retries"` // Further attempts at a request that failed for a passing reason.
	Concurrency    int            `yaml:"concurrency"`
	MaxBytes       int64          `yaml:"max_bytes"` // Of one answer, unpacked.
	// Look: exporters are asked to look closely at processes that live and stay away (GET /api/v1/look), where they offer it.
	Look bool `yaml:"look"`

	address *template.Template
}

// Labels names the labels of trigger alerts, for rules other than the shipped ones.
type Labels struct {
	JobID    string `yaml:"job_id"`
	Rank     string `yaml:"rank"`
	Comm     string `yaml:"comm"`
	Instance string `yaml:"instance"`
	// Job lists the labels that tell one job from another: job_id and, where ids are unique only within a cluster, further ones.
	// Triggers, series and the shipped rules (jobLabels of the mixin) must have the same.
	Job []string `yaml:"job"`
	// Match is what tells this analyzer's jobs from those of others where several clusters share a Prometheus: only series and
	// triggers with these labels are looked at, and alerts and metrics carry them.
	Match map[string]string `yaml:"match"`
}

// Matches reports whether an alert or a series with these labels is this analyzer's.
func (l *Labels) Matches(labels map[string]string) bool {
	for name, value := range l.Match {
		if labels[name] != value {
			return false
		}
	}
	return true
}

// Further gives the labels that belong to a job's identity beside its id. Those that Match fixes tell nothing more.
func (l *Labels) Further() []string {
	var out []string
	for _, name := range l.Job {
		if _, fixed := l.Match[name]; !fixed && name != identity.IDLabel {
			out = append(out, name)
		}
	}
	return out
}

// Analysis holds the engine's thresholds and how an analysis is run.
type Analysis struct {
	// AllNodesUpTo is the number of exporters up to which all of a job are asked at once; above it only those the
	// search visits.
	AllNodesUpTo int `yaml:"all_nodes_up_to"`
	// ConfirmAfter is how long after the first look the accused and those that wait for them are looked at again before
	// a hang pages. 0: not.
	ConfirmAfter model.Duration `yaml:"confirm_after"`
	// Patience is how long a culprit may stay away that lives and has not called what its peers wait in, before it pages.
	Patience Patience `yaml:"patience"`
	// History is how much finished work is fetched for a slowdown, at most.
	History model.Duration `yaml:"history"`
	// Deadline bounds one analysis.
	Deadline model.Duration `yaml:"deadline"`
	Workers  int            `yaml:"workers"` // Analyses at the same time.

	HangAfter          model.Duration `yaml:"hang_after"`
	StorageBytesPerSec float64        `yaml:"storage_bytes_per_second"`
	FirstOps           int64          `yaml:"first_ops"`
	FirstStepIdle      model.Duration `yaml:"first_step_idle"`
	FirstStepLimit     model.Duration `yaml:"first_step_limit"`
	BusyCores          float64        `yaml:"busy_cores"`
	IrregularFactor    float64        `yaml:"irregular_factor"`
	Alpha              float64        `yaml:"alpha"`
	Beta               float64        `yaml:"beta"`
	Theta              float64        `yaml:"theta"`
	LateAfter          model.Duration `yaml:"late_after"`
	PageConfidence     float64        `yaml:"page_confidence"`

	// Topology names files that tell which NICs, links and switches lie between hosts; all may be left out.
	Topology topology.Files `yaml:"topology"`

	topology *topology.Topology
}

// Patience is Factor times the longest wait of the job that ended by itself, within AtLeast and AtMost. Until then a
// verdict warns (see Notify.Warning) and does not page.
type Patience struct {
	AtLeast model.Duration `yaml:"at_least"`
	Factor  float64        `yaml:"factor"`
	AtMost  model.Duration `yaml:"at_most"`
}

// Incidents bounds the life of incidents.
type Incidents struct {
	MaxOpen      int            `yaml:"max_open"`      // Further jobs' triggers are answered with 503.
	History      int            `yaml:"history"`       // Resolved incidents kept.
	Grace        model.Duration `yaml:"grace"`         // From the last trigger's end to resolved.
	RetryMin     model.Duration `yaml:"retry_min"`     // First re-analysis of an incomplete or unalarming verdict.
	RetryMax     model.Duration `yaml:"retry_max"`     // Its backoff's end.
	Recheck      model.Duration `yaml:"recheck"`       // Re-analysis of a complete verdict that pages.
	LookBack     model.Duration `yaml:"look_back"`     // Between two analyses that fetch finished work.
	PassiveTTL   model.Duration `yaml:"passive_ttl"`   // How long a request through the API keeps its incident open.
	LostTriggers model.Duration `yaml:"lost_triggers"` // A trigger missing from Alertmanager for so long has ended.
	Silent       model.Duration `yaml:"silent"`        // A trigger not heard of for so long has ended, without Alertmanager to ask.
}

// Evidence bounds what is kept of the evidence behind verdicts, as archives that analyze reads.
type Evidence struct {
	PerIncident int64          `yaml:"max_bytes_per_incident"` // An archive that would be larger is not kept.
	Total       int64          `yaml:"max_bytes"`              // Of all archives; the oldest go first. 0: none are kept.
	Retention   model.Duration `yaml:"retention"`
}

// Notify shapes the alert that a verdict becomes.
type Notify struct {
	// Names of the alert by kind of verdict, each with one severity: a site's inhibition rules may hold back an alert while
	// one of the same name and a higher severity fires, be it about another job.
	AlertName string `yaml:"alert_name"`
	Slow      string `yaml:"slow_name"`
	Unknown   string `yaml:"unknown_name"`
	// Warning is the name of the alert while a verdict does not page yet (see Analysis.Patience).
	Warning string            `yaml:"warning_name"`
	Labels  map[string]string `yaml:"labels"` // Added to each alert.
	// CopyLabels are taken over from the job's triggers or, where all agree, its processes.
	CopyLabels []string       `yaml:"copy_labels"`
	Severity   Severity       `yaml:"severity"`
	Resend     model.Duration `yaml:"resend_interval"`
	MaxAlerts  int            `yaml:"max_alerts"` // One alert a culprit up to here; above, one a host.
}

// Severity is the severity label by kind of verdict.
type Severity struct {
	Hang    string `yaml:"hang"`
	Slow    string `yaml:"slow"`
	Unknown string `yaml:"unknown"`
	Warning string `yaml:"warning"` // Of a verdict that does not page yet.
}

// Stacks says where Python stacks of a job's processes are fetched on a trigger (M11).
type Stacks struct {
	// URL is a template over the labels of culprit_nccl_process_info for what answers with py-spy dump --json; empty: none are
	// fetched.
	URL        string                      `yaml:"url"`
	HTTPConfig promconfig.HTTPClientConfig `yaml:"http_config"`
	Timeout    model.Duration              `yaml:"timeout"` // Of one request.
}

// Actions says what is done on a verdict, and how much at most.
type Actions struct {
	MaxHosts int            `yaml:"max_hosts"`    // Different hosts that all rules together may touch within Window.
	Window   model.Duration `yaml:"window"`       // Of the budget.
	Interval model.Duration `yaml:"min_interval"` // Between two actions.
	Rules    []Action       `yaml:"rules"`
}

// Action is one rule: on which verdicts something is done, and what. It has a command or a webhook.
type Action struct {
	Name          string         `yaml:"name"`
	Classes       []rca.Class    `yaml:"classes"` // Empty: all that accuse somebody.
	Causes        []rca.Cause    `yaml:"causes"`  // Empty: those of a bad machine.
	MinConfidence float64        `yaml:"min_confidence"`
	After         model.Duration `yaml:"after"`   // For so long the verdict must have stood.
	Hosts         string         `yaml:"hosts"`   // Regular expression of the hosts that may be touched; empty: all.
	DryRun        bool           `yaml:"dry_run"` // Only say what would be done.
	Timeout       model.Duration `yaml:"timeout"`
	Command       []string       `yaml:"command"` // Program and arguments; no shell.
	Webhook       ActionWebhook  `yaml:"webhook"`

	hosts *regexp.Regexp
}

// ActionWebhook is an address that an action is posted to.
type ActionWebhook struct {
	URL string `yaml:"url"`
	// SecretFile has what bodies are signed with; empty: they are not signed.
	SecretFile string                      `yaml:"secret_file"`
	HTTPConfig promconfig.HTTPClientConfig `yaml:"http_config"`
}

// UnmarshalYAML gives the fields that a rule leaves out their defaults: nothing is done until dry_run is false.
func (a *Action) UnmarshalYAML(unmarshal func(any) error) error {
	type plain Action
	*a = Action{MinConfidence: 0.9, After: model.Duration(time.Minute), DryRun: true, Timeout: model.Duration(30 * time.Second), Webhook: ActionWebhook{HTTPConfig: promconfig.DefaultHTTPClientConfig}}
	return unmarshal((*plain)(a))
}

// HostPattern gives the hosts that the rule may touch; nil: all.
func (a *Action) HostPattern() *regexp.Regexp { return a.hosts }

// Default gives the configuration of an empty file.
func Default() *Config {
	c := unread()
	c.derive()
	return c
}

// derive fills in what follows from the fields of a file.
func (c *Config) derive() {
	p := &c.Prometheus
	p.Queries.narrow(c.Labels.Match, p.ExporterSelector, p.RecordedSelector)
	p.JobLabels, p.HostLabel = c.Labels.Further(), c.Exporters.HostLabel
}

// unread gives the values of the fields that a file leaves out.
func unread() *Config {
	return &Config{
		RunbookURL: "https://github.com/culprit-project/culprit/blob/main/docs/runbooks/CulpritFound.md#{{ .Cause }}",
		Links:      []Link{},
		Prometheus: Prometheus{
			HTTPConfig:      promconfig.DefaultHTTPClientConfig,
			Timeout:         model.Duration(5 * time.Second),
			MaxBytes:        256 << 20,
			Lookback:        model.Duration(10 * time.Minute),
			RefreshInterval: model.Duration(time.Minute),
			// As the shipped rules have it.
			ExporterSelector: `job="culprit-exporter"`,
			OnlyTargets:      true,
			Scrapers:         []Scraper{},
			RecordedSelector: `job=""`,
			Queries: Queries{
				Triggers:  `ALERTS_FOR_STATE{ {{- .Selector -}} } and ignoring (alertstate) ALERTS{ {{- .Selector -}} ,alertstate="firing"} or (sum without (alertstate) (ALERTS{ {{- .Selector -}} ,alertstate="firing"}) unless ignoring (alertstate) ALERTS_FOR_STATE{ {{- .Selector -}} })`,
				Evaluated: `max without (alertstate) (timestamp(ALERTS{ {{- .Selector -}} ,alertstate="firing"}))`,
				Processes: "culprit_nccl_process_info{ {{- .Selector -}} }",
				Comms:     "culprit_nccl_comm_info{ {{- .Selector -}} }",
				Up:        "culprit_nccl_process_up{ {{- .Selector -}} }",
				Exporters: "culprit_exporter_build_info{ {{- .Selector -}} }",
				Ages:      "culprit_nccl_op_age_seconds{ {{- .Selector -}} }",
				Stalled:   "culprit_nccl_stall_seconds{ {{- .Selector -}} }",
				Calls:     "culprit_nccl_call_open_seconds{ {{- .Selector -}} }",
				Started:   "culprit_nccl_ops_started_total{ {{- .Selector -}} }",
				Completed: "culprit_nccl_ops_completed_total{ {{- .Selector -}} }",
				Pace:      "avg(sum by (rank) (rate(culprit_nccl_function_ops_total{ {{- .Selector -}} }[{{ .Rate }}])))",
				Waits:     "sum by (rank, reason) (rate(culprit_nccl_wait_seconds_total{ {{- .Selector -}} }[{{ .Rate }}] {{- .Offset -}} ))",
				Kernels:   "sum by (rank, function) (rate(culprit_nccl_kernel_seconds_total{ {{- .Selector -}} }[{{ .Rate }}] {{- .Offset -}} ))",
				RunDelay:  `max by (rank) (avg_over_time(culprit_host_thread_run_delay_ratio{ {{- .Selector -}} ,role="proxy"}[5m] {{- .Offset -}} )) > 0.1`,
				Slowdown: "max(job_id:culprit_nccl_iteration_seconds:mean_short{ {{- .Selector -}} ,instance=\"\"} / last_over_time(job_id:culprit_nccl_iteration_seconds:mean_short_baseline{ {{- .Selector -}} ,instance=\"\"}[2h])" +
					" or job_id:culprit_nccl_iteration_seconds:mean_long{ {{- .Selector -}} ,instance=\"\"} / last_over_time(job_id:culprit_nccl_iteration_seconds:mean_long_baseline{ {{- .Selector -}} ,instance=\"\"}[2h]))",
				LongestWait:  "max(max_over_time(job_id:culprit_nccl_wait_ended_seconds:max{ {{- .Selector -}} }[{{ .Window }}]))",
				LongestPause: "max(max_over_time(job_id:culprit_nccl_launch_pause_seconds:max{ {{- .Selector -}} }[{{ .Window }}]))",
			},
			NodeEvidence: defaultNodeEvidence(),
		},
		Alertmanager: Alertmanager{
			HTTPConfig:   promconfig.DefaultHTTPClientConfig,
			Timeout:      model.Duration(5 * time.Second),
			PollInterval: model.Duration(15 * time.Second),
			PeerTimeout:  model.Duration(15 * time.Second),
		},
		Exporters: Exporters{
			Address:        "http://{{ .instance }}",
			Instances:      []string{},
			HTTPConfig:     promconfig.DefaultHTTPClientConfig,
			Timeout:        model.Duration(2 * time.Second),
			HistoryTimeout: model.Duration(10 * time.Second),
			Retries:        1,
			Concurrency:    64,
			MaxBytes:       64 << 20,
			Look:           true,
		},
		Labels: Labels{JobID: "job_id", Rank: "rank", Comm: "comm", Instance: "instance", Job: []string{identity.IDLabel, identity.OwnerLabel}, Match: map[string]string{}},
		Analysis: Analysis{
			AllNodesUpTo: 64,
			ConfirmAfter: model.Duration(300 * time.Millisecond),
			Patience:     Patience{AtLeast: model.Duration(30 * time.Second), Factor: 2, AtMost: model.Duration(10 * time.Minute)},
			History:      model.Duration(5 * time.Minute),
			Deadline:     model.Duration(30 * time.Second),
			Workers:      4,
		},
		Incidents: Incidents{
			MaxOpen:      256,
			History:      500,
			Grace:        model.Duration(15 * time.Second),
			RetryMin:     model.Duration(time.Second),
			RetryMax:     model.Duration(3 * time.Second),
			Recheck:      model.Duration(time.Minute),
			LookBack:     model.Duration(15 * time.Second),
			PassiveTTL:   model.Duration(2 * time.Minute),
			LostTriggers: model.Duration(90 * time.Second),
			Silent:       model.Duration(6 * time.Hour),
		},
		Evidence: Evidence{PerIncident: 32 << 20, Total: 1 << 30, Retention: model.Duration(30 * 24 * time.Hour)},
		Notify: Notify{
			AlertName:  "CulpritFound",
			Slow:       "CulpritSlow",
			Unknown:    "CulpritUnknown",
			Warning:    "CulpritSuspected",
			CopyLabels: []string{"cluster", "namespace", "team"},
			Severity:   Severity{Hang: "critical", Slow: "warning", Unknown: "warning", Warning: "warning"},
			Resend:     model.Duration(time.Minute),
			MaxAlerts:  8,
		},
		Stacks:  Stacks{HTTPConfig: promconfig.DefaultHTTPClientConfig, Timeout: model.Duration(5 * time.Second)},
		Actions: Actions{MaxHosts: 2, Window: model.Duration(24 * time.Hour), Interval: model.Duration(time.Minute), Rules: []Action{}},
	}
}

// AddressLabels leaves only labels that can be part of an address, and adds one: address, the host at which Prometheus scrapes. Only that and the
// instance are Prometheus's word: an exporter chooses its host, and with it who is asked and gets the password.
func AddressLabels(labels map[string]string) map[string]string {
	out := make(map[string]string, len(labels))
	for name, value := range labels {
		if addressPattern.MatchString(value) || name == "instance" && instancePattern.MatchString(value) {
			out[name] = value
		}
	}
	if at, known := out["instance"]; known {
		at, _, _ = strings.Cut(at, "/")
		if host, _, err := net.SplitHostPort(at); err == nil {
			at = host
		}
		if strings.Contains(at, ":") {
			at = "[" + strings.Trim(at, "[]") + "]"
		}
		out["address"] = at
	} else {
		delete(out, "address")
	}
	return out
}

// BaseURL gives the exporter's address from a process's labels.
func (e *Exporters) BaseURL(labels map[string]string) (string, error) {
	var b strings.Builder
	if err := e.address.Execute(&b, AddressLabels(labels)); err != nil {
		return "", fmt.Errorf("filling exporters.address (labels that are no part of an address are left out): %w", err)
	}
	if err := checkURL(b.String()); err != nil {
		return "", fmt.Errorf("filling exporters.address: %w", err)
	}
	return strings.TrimRight(b.String(), "/"), nil
}

// Options gives the engine's thresholds; zero ones take the engine's defaults.
func (a *Analysis) Options() rca.Options {
	return rca.Options{
		HangAfter:          time.Duration(a.HangAfter),
		StorageBytesPerSec: a.StorageBytesPerSec,
		FirstOps:           a.FirstOps,
		FirstStepIdle:      time.Duration(a.FirstStepIdle),
		FirstStepLimit:     time.Duration(a.FirstStepLimit),
		BusyCores:          a.BusyCores,
		IrregularFactor:    a.IrregularFactor,
		Alpha:              a.Alpha,
		Beta:               a.Beta,
		Theta:              a.Theta,
		LateAfter:          time.Duration(a.LateAfter),
		PageConfidence:     a.PageConfidence,
		Topology:           a.topology,
	}
}
