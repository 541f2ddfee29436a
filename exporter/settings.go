// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/alecthomas/units"
	"github.com/prometheus/common/promslog"
	promslogflag "github.com/prometheus/common/promslog/flag"
	"github.com/prometheus/exporter-toolkit/web"
	webflag "github.com/prometheus/exporter-toolkit/web/kingpinflag"

	"github.com/culprit-project/culprit/exporter/attach"
	"github.com/culprit-project/culprit/exporter/collector"
	"github.com/culprit-project/culprit/exporter/doctor"
	"github.com/culprit-project/culprit/exporter/history"
	"github.com/culprit-project/culprit/exporter/kafka"
	"github.com/culprit-project/culprit/exporter/kubelet"
	"github.com/culprit-project/culprit/exporter/node"
	"github.com/culprit-project/culprit/exporter/ras"
	"github.com/culprit-project/culprit/exporter/stall"
	"github.com/culprit-project/culprit/internal/cli"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// Commands beside serve.
const (
	commandDoctor      = "doctor"
	commandInstallShim = "install-shim"
	commandAttach      = "attach"
)

// Values of --look.
const (
	lookAuto = "auto"
	lookOn   = "on"
	lookOff  = "off"
)

// settings are what the flags say.
type settings struct {
	web        *web.FlagConfig
	log        *promslog.Config
	node       node.Options
	nccl       collector.NCCLOptions
	history    history.Options
	kafka      kafka.Options
	trigger    stall.Options
	triggerAs  string           // File with what triggers are posted with.
	collector  map[string]*bool // Switched on, by name.
	telemetry  string           // Path of the metrics.
	sysfs      string
	prepare    bool     // Make the trace directories and end.
	noDefaults bool     // Only the collectors that the user named.
	actors     []string // Users that may change something; empty: all.
	control    bool     // Running jobs may be told what to report.
	look       string   // Who may have a close look taken: auto, on or off.
	pySpy      string   // Path of py-spy; empty: it is looked for.
	kubelet    string   // The kubelet's folder of pods' logs; empty: not looked at.
	cover      bool     // Processes that are not watched are looked for.
	cpus       int
	ras        struct {
		address  string
		interval time.Duration
	}
	command    string // What is to be done.
	doctor     doctor.Options
	doctorHTTP string // File with what it asks with.
	shim       struct {
		from, to   string // Folders.
		bestEffort bool   // A failure is logged, and no more.
	}
	attach attach.Options
}

func parseFlags(args []string) (*settings, error) {
	app := cli.New("culprit-exporter", "Prometheus exporter for the collective communication of training jobs.")
	s := &settings{web: webflag.AddFlags(app, ":9850"), log: &promslog.Config{}, collector: map[string]*bool{}, trigger: stall.Options{Labels: map[string]string{}}}
	promslogflag.AddFlags(app, s.log)

	app.Flag("web.telemetry-path", "Path under which metrics are served.").Default("/metrics").StringVar(&s.telemetry)
	app.Flag("web.enable-control", "Let PUT "+nodeapi.EventsPath+" change which events running jobs report. Everyone who can reach the exporter may then do so; "+
		"guard it with --web.config.file.").BoolVar(&s.control)
	app.Flag("web.act-user", "User of --web.config.file, or common name of a client's certificate, that is allowed to make changes if these are enabled; "+
		"all other users are read-only. Repeatable. Default: every authenticated user.").StringsVar(&s.actors)
	app.Flag("look", "Take a close look at processes of jobs when asked (GET "+nodeapi.LookPath+"): system calls, files, mounts, Python stacks. "+
		"auto: for clients that --web.config.file authenticates. on: for everyone who can reach the exporter. off: for nobody.").
		Default(lookAuto).EnumVar(&s.look, lookAuto, lookOn, lookOff)
	app.Flag("look.py-spy", "Path of the node's py-spy, for Python stacks. Default: py-spy on the PATH, if it is there.").StringVar(&s.pySpy)
	app.Flag("trace.dir", "Directory of trace files. Repeatable.").Default("/dev/shm/culprit").StringsVar(&s.node.Dirs)
	app.Flag("trace.prepare", "Create the trace directories (owner root, mode 1777) and exit. Needs root.").BoolVar(&s.prepare)
	app.Flag("trace.search", "Look at the mappings of all processes for trace files in mount namespaces of their own, and for NCCL without the plugin. "+
		"Needs CAP_SYS_PTRACE to see other users' processes.").Default("true").BoolVar(&s.cover)
	app.Flag("trace.keep-dead", "How long a dead process's last state is kept.").Default("10m").DurationVar(&s.node.KeepDead)
	app.Flag("sample-interval", "Time between two looks at the trace files.").Default("100ms").DurationVar(&s.node.Interval)
	app.Flag("host-name", "Name of this host in metrics; default: the system's.").StringVar(&s.node.HostName)
	app.Flag("path.procfs", "Where procfs is mounted.").Default("/proc").StringVar(&s.node.ProcFS)
	app.Flag("path.sysfs", "Where sysfs is mounted.").Default("/sys").StringVar(&s.sysfs)
	app.Flag("kubernetes.pod-logs", "The kubelet's folder of pod logs, used to map pod UIDs to names. Empty disables it.").
		Default(kubelet.DefaultLogs).StringVar(&s.kubelet)
	app.Flag("runtime.gomaxprocs", "CPUs that the exporter may use at a time. It shares its node with a training job.").
		Envar("GOMAXPROCS").Default("1").IntVar(&s.cpus)

	size := app.Flag("history.size", "Memory for the recent history that GET /api/v1/trace serves.").Default("16MB").String()
	app.Flag("history.dir", "Directory for a file with the history, usually on a tmpfs. The file survives a restart of the exporter. "+
		"Empty keeps history in memory.").StringVar(&s.history.Dir)
	dirSize := app.Flag("history.dir-size", "Size of that file.").Default("512MB").String()
	app.Flag("history.keep", "Maximum age of history.").Default("1h").DurationVar(&s.history.Keep)
	app.Flag("kafka.broker", "Kafka broker (host:port) to stream all records to. Repeatable.").StringsVar(&s.kafka.Brokers)
	app.Flag("kafka.topic", "Kafka topic to stream to.").Default("culprit-trace").StringVar(&s.kafka.Topic)
	app.Flag("kafka.tls", "Connect to the brokers with TLS.").BoolVar(&s.kafka.TLS)
	app.Flag("kafka.config.file", "File with TLS and SASL settings for the brokers: tls_config in Prometheus's form, and sasl with mechanism (PLAIN, SCRAM-SHA-256, "+
		"SCRAM-SHA-512), username, and password or password_file.").StringVar(&s.kafka.Config)
	app.Flag("trigger.url", "URL of an Alertmanager, such as http://alertmanager:9093. The exporter posts the trigger for a job that has stopped to it, "+
		"without waiting for scrapes. Repeatable; each receives every trigger. Default: only Prometheus's rules trigger.").StringsVar(&s.trigger.URLs)
	app.Flag("trigger.http.config.file", "File with credentials, certificates and headers for these requests, in the form of Prometheus's http_config.").StringVar(&s.triggerAs)
	app.Flag("trigger.label", "Label that Prometheus adds to its alerts (external_labels), as NAME=VALUE. Repeatable.").StringMapVar(&s.trigger.Labels)

	detail, chosen := s.addCollectors(app)
	app.Command("serve", "Serve metrics, state and history. This is the default command.").Default()
	s.addDoctor(app)
	s.addInstallShim(app)
	s.addAttach(app)
	var err error
	if s.command, err = app.Parse(args); err != nil {
		return nil, err
	}
	s.attach.ProcFS, s.attach.HostName = s.node.ProcFS, s.node.HostName
	s.doctor.Dirs, s.doctor.ProcFS = s.node.Dirs, s.node.ProcFS
	if s.noDefaults {
		for name, on := range s.collector {
			*on = *on && *chosen[name]
		}
	}
	memory, err := bytesOf("--history.size", *size)
	if err != nil {
		return nil, err
	}
	s.history.MaxBytes = int(memory)
	if s.history.DirBytes, err = bytesOf("--history.dir-size", *dirSize); err != nil {
		return nil, err
	}
	s.nccl.Detail = collector.Detail(*detail)
	switch {
	case s.node.Interval < time.Millisecond:
		return nil, errors.New("--sample-interval must be at least 1ms")
	case s.cpus < 1:
		return nil, errors.New("--runtime.gomaxprocs must be at least 1")
	}
	return s, nil
}

// bytesOf reads a size as kingpin does, and names the flag where that fails.
func bytesOf(flag, text string) (int64, error) {
	n, err := units.ParseBase2Bytes(text)
	if err != nil {
		return 0, fmt.Errorf("%s=%s is no size, such as 16MB or 1GB", flag, text)
	}
	return int64(n), nil
}

// addDoctor adds the command that looks for what is set up wrongly.
func (s *settings) addDoctor(app *kingpin.Application) {
	command := app.Command(commandDoctor, "Look for what keeps Culprit from working on this node and in its cluster, and print what to do. Exits with 1 when something fails.")
	command.Flag("node", "Check this node, too: trace directory, processes and exporter.").Default("true").BoolVar(&s.doctor.Node)
	command.Flag("exporter.url", "URL of this node's exporter. Empty skips its checks.").Default("http://localhost:9850").StringVar(&s.doctor.ExporterURL)
	command.Flag("prometheus.url", "URL of Prometheus. With VictoriaMetrics, URL of VMAgent, which lists the targets.").StringVar(&s.doctor.PrometheusURL)
	command.Flag("rules.url", "URL of what evaluates the rules, such as VMAlert. Default: Prometheus.").StringVar(&s.doctor.RulesURL)
	command.Flag("alertmanager.url", "URL of Alertmanager.").StringVar(&s.doctor.AlertmanagerURL)
	command.Flag("analyzer.url", "URL of the analyzer.").StringVar(&s.doctor.AnalyzerURL)
	command.Flag("http.config.file", "Credentials, certificates and headers with which all these are asked, as Prometheus's http_config.").StringVar(&s.doctorHTTP)
	command.Flag("probe", "Post a synthetic trigger to Alertmanager, and wait until the analyzer has it. Whoever the routes send it to instead gets a message.").BoolVar(&s.doctor.Probe)
	command.Flag("exporter.job", "Name of the scrape job of exporters, which the rules select by.").Default("culprit-exporter").StringVar(&s.doctor.ExporterJob)
	command.Flag("analyzer.job", "Name of the scrape job of the analyzer.").Default("culprit-analyzer").StringVar(&s.doctor.AnalyzerJob)
	command.Flag("scrape-interval", "Longest scrape interval that the windows of the rules allow.").Default("5s").DurationVar(&s.doctor.ScrapeInterval)
}

// addInstallShim adds the command that an init container runs.
func (s *settings) addInstallShim(app *kingpin.Application) {
	command := app.Command(commandInstallShim, "Copy the shim's libraries to a folder of the node, where jobs find them, and exit.")
	command.Flag("from", "Folder with the libraries.").Default("/usr/lib/culprit").StringVar(&s.shim.from)
	command.Flag("to", "Folder that they are copied to.").Required().StringVar(&s.shim.to)
	command.Flag("best-effort", "Exit with 0 whatever happens: a pod whose init container this is starts without the shim then.").BoolVar(&s.shim.bestEffort)
}

// addAttach adds the command that looks at a job which nobody prepared.
func (s *settings) addAttach(app *kingpin.Application) {
	command := app.Command(commandAttach, "Put probes on a running job's processes on this node for some seconds, and say which rank the others wait for. "+
		"Exits with 1 when none can be named. Needs the rights of --collector.uprobe.")
	command.Flag("pid", "A process of the job; the others on this node are found.").IntVar(&s.attach.PID)
	command.Flag("job", "The job's name, as its environment tells it: Slurm's number, torchrun's id, MASTER_ADDR:MASTER_PORT.").StringVar(&s.attach.Job)
	command.Flag("for", "How long to look.").Default("3s").DurationVar(&s.attach.For)
	command.Flag("output", "Folder for the trace files of the processes; culprit-analyzer analyze reads those of several nodes together.").StringVar(&s.attach.Output)
}

// addCollectors adds the collectors' flags. It gives the value of --collector.nccl.detail, and which collectors the user
// named.
func (s *settings) addCollectors(app *kingpin.Application) (detail *string, chosen map[string]*bool) {
	chosen = map[string]*bool{}
	app.Flag("collector.disable-defaults", "Disable all collectors except those that --collector.NAME enables.").BoolVar(&s.noDefaults)
	for _, c := range []struct{ name, on, help string }{
		{"nccl", "true", "Collect culprit_nccl_* from the trace files."},
		{"host", "true", "Collect culprit_host_* from procfs and sysfs."},
		{"rdma", "true", "Collect culprit_rdma_* of InfiniBand and RoCE ports."},
		{"pci", "true", "Collect culprit_pci_* of the PCI Express links of GPUs and network cards."},
		{"nvml", "true", "Collect culprit_nvml_* of NVIDIA GPUs, where there are any."},
		{"uprobe", "false", "Follow processes that use NCCL without the shim, by probes on NCCL's functions. Needs Linux 5.15, CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE."},
		{"ras", "false", "Collect culprit_nccl_ras_* from NCCL's RAS service. Queries have crashed jobs with NCCL 2.26 and 2.27."},
	} {
		chosen[c.name] = new(bool)
		s.collector[c.name] = app.Flag("collector."+c.name, c.help).Default(c.on).IsSetByUser(chosen[c.name]).Bool()
	}
	detail = app.Flag("collector.nccl.detail", "When to export per-flow series: auto (while a communicator is stuck or the analyzer looks into its job), full or off.").
		Default(string(collector.DetailAuto)).Enum(string(collector.DetailAuto), string(collector.DetailFull), string(collector.DetailOff))
	app.Flag("collector.nccl.detail-after", "With auto: how long a communicator must be stuck.").Default("3s").DurationVar(&s.nccl.DetailAfter)
	app.Flag("collector.nccl.rank-series", "Maximum nccl series of a healthy rank. Series left after process, function and communicator metrics are given to the slowest kinds of operations.").
		Default("100").IntVar(&s.nccl.RankSeries)
	app.Flag("collector.nccl.max-series", "Hard cap of culprit_nccl_* series; what exceeds it is dropped and counted.").Default("20000").IntVar(&s.nccl.MaxSeries)
	app.Flag("collector.ras.address", "Where RAS listens (NCCL_RAS_ADDR).").Default(ras.DefaultAddress).StringVar(&s.ras.address)
	app.Flag("collector.ras.interval", "How often to query RAS, independent of the scrape interval.").Default("1m").DurationVar(&s.ras.interval)
	return detail, chosen
}
