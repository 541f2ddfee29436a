// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/alecthomas/units"
	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/offline/load"
	"github.com/culprit-project/culprit/analyzer/offline/report"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// Exit codes of the command.
const (
	ExitHealthy  = 0  // Healthy, or waiting for a legitimate reason.
	ExitFound    = 1  // Something is wrong and the verdict says what.
	ExitUnknown  = 2  // The evidence does not carry a verdict.
	ExitUsage    = 64 // The command line is wrong.
	ExitData     = 65 // No file held anything that is understood.
	ExitNoInput  = 66 // A path does not exist or cannot be read.
	ExitSoftware = 70 // A defect of the program itself.
	ExitCannot   = 73 // An output file cannot be written.
	ExitCanceled = 130
)

const help = `Say which rank of a training job hangs or slows it, and why, from files alone.

PATH is a file, a directory (read with everything below it) or - for standard input, and all of them are read as one
job. Files are recognised by content, also inside .zip, .tar, .gz, .bz2 and .zst: PyTorch Flight Recorder and TorchComms dumps,
NCCL RAS reports, job logs (PyTorch, gloo, torchrun, Ray, NVRx, dlrover), NCCL
and RCCL Inspector logs, trace files and recorded exporter answers, an
incident's kept evidence, op tables (CSV, TSV, Parquet, Chrome traces), byte
counters of flows (CSV),
Chrome/Kineto traces, stacks (py-spy, faulthandler, gdb, pystack, eu-stack).

  culprit-analyzer analyze /tmp/nccl_trace_rank_*       Flight Recorder dumps of a hung job
  culprit-analyzer analyze dumps/ ras.txt stacks/       combined with a RAS report and py-spy dumps
  culprit-analyzer analyze slurm-4711.out               a job's log after a watchdog timeout
  ncclras -v | culprit-analyzer analyze -               a RAS report as it comes
  culprit-analyzer analyze /dev/shm/culprit             trace files, of crashed processes too
  culprit-analyzer analyze ops.parquet --explain        an op table, with the full reasoning
  culprit-analyzer analyze sick/ --compare healthy/     against a healthy recording

Exit status: 0 healthy or benign, 1 something is wrong and found, 2 unknown, 64 and up for usage and input errors,
70 for a defect, 134 or 137 where memory was not enough.`

// config is the command line.
type config struct {
	paths     []string
	compare   []string
	json      bool
	explain   bool
	method    string
	quiet     bool
	color     string
	timeline  string
	html      string
	columns   map[string]string
	worldSize int
	jobID     string
	topology  []string
	operators string
	base      time.Duration
	maxFile   units.Base2Bytes
	maxTotal  units.Base2Bytes
	watch     load.Watch
}

// Command registers `analyze` and gives the function that runs it after parsing; its result is the exit code.
func Command(app *kingpin.Application) (cmd *kingpin.CmdClause, run func(context.Context) int) {
	c := &config{columns: map[string]string{}}
	return c.register(app), func(ctx context.Context) int {
		if os.Args[0] == bounded {
			return c.runBounded(ctx)
		}
		return c.supervise(ctx)
	}
}

// runUntil is run, and does not wait for it when ctx ends: a FIFO that nobody writes to, or standard input, can block a reader for
// ever. The process ends right after.
func (c *config) runUntil(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) int {
	endFatally()
	code := make(chan int, 1)
	go func() { code <- c.run(ctx, stdin, stdout, stderr) }()
	select {
	case n := <-code:
		return n
	case <-ctx.Done():
		return ExitCanceled
	}
}

// endFatally has an end that no code can prevent, such as that of memory, come with SIGABRT (status 134 for a shell). The runtime's status for it
// would be 2, that of a verdict.
func endFatally() {
	debug.SetTraceback("crash")
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) // It leaves no memory image, which nobody asked for.
}

func (c *config) register(app *kingpin.Application) *kingpin.CmdClause {
	cmd := app.Command("analyze", help)
	cmd.Arg("path", "Files and directories of one job; - is standard input.").Required().StringsVar(&c.paths)
	cmd.Flag("json", "Print the verdict as JSON, as the service's API gives it.").BoolVar(&c.json)
	cmd.Flag("explain", "Print the full reasoning: evidence, who was ruled out, what each paper's method says, every rank.").BoolVar(&c.explain)
	cmd.Flag("method", "Print what one method alone says, in place of the verdict: a paper's (mycroft, ccl-d, pulse, holmes), or that of the model that may follow the engine (model; --explain prints its worlds and their scores). The exit status is by its answer.").EnumVar(&c.method, report.MethodNames()...)
	cmd.Flag("compare", "A healthy recording (file or directory, repeatable) to hold against.").StringsVar(&c.compare)
	cmd.Flag("timeline", "Write a Chrome/Perfetto trace of what the files hold to this file.").StringVar(&c.timeline)
	cmd.Flag("html", "Write the verdict as a page to this file, with all that it needs in it.").StringVar(&c.html)
	cmd.Flag("column", "Role of an op table's column, role=name (repeatable). Roles: "+columnRoles+".").StringMapVar(&c.columns)
	cmd.Flag("world-size", "Ranks the job has, where the files do not say.").IntVar(&c.worldSize)
	cmd.Flag("job-id", "Name of the job, for the verdict.").StringVar(&c.jobID)
	cmd.Flag("topology", "What connects the hosts (repeatable): Slurm's topology.conf, NCCL's topology XML, or the project's YAML; names NICs, links and switches.").StringsVar(&c.topology)
	cmd.Flag("operator-model", "A trained detector of abnormal operations for --method=holmes, as culprit-sim train writes it; none: a rule without training.").StringVar(&c.operators)
	cmd.Flag("base", "How long an operation took when the job was healthy, for --method=ccl-d; the files' first rounds otherwise.").DurationVar(&c.base)
	cmd.Flag("max-file-size", "Most bytes a single file may have after unpacking.").Default("256MB").BytesVar(&c.maxFile)
	cmd.Flag("max-unpacked-size", "Most bytes that all files together may have after unpacking, beside a hundred times what was packed.").Default("4GB").BytesVar(&c.maxTotal)
	cmd.Flag("color", "Colour: auto (terminals, unless NO_COLOR is set), always, never.").Default("auto").EnumVar(&c.color, "auto", "always", "never")
	cmd.Flag("quiet", "No progress bar.").Short('q').BoolVar(&c.quiet)
	return cmd
}

func (c *config) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(stderr, "culprit-analyzer: no verdict, by a defect: %s\n%s", report.Plain(fmt.Sprint(p)), debug.Stack())
			code = ExitSoftware
		}
	}()
	opt, err := c.options()
	if err != nil {
		fmt.Fprintln(stderr, "culprit-analyzer:", err)
		return ExitNoInput
	}
	sick, code := c.load(ctx, c.paths, stdin, stderr)
	if code != 0 {
		return code
	}
	result := diagnosis.Diagnose(sick, opt)
	if len(c.compare) > 0 {
		healthy, code := c.load(ctx, c.compare, stdin, stderr)
		if code != 0 {
			return code
		}
		result.CompareWith(diagnosis.Diagnose(healthy, opt))
	}
	if c.timeline != "" {
		if err := report.Timeline(c.timeline, result); err != nil {
			fmt.Fprintln(stderr, "culprit-analyzer:", err)
			return ExitCannot
		}
	}
	if c.html != "" {
		if err := writeHTML(c.html, result); err != nil {
			fmt.Fprintln(stderr, "culprit-analyzer:", err)
			return ExitCannot
		}
	}
	class := result.Verdict.Class
	switch {
	case c.method == report.Model:
		class, err = report.ByModel(stdout, result, c.json, c.explain)
	case c.method != "":
		class, err = report.Method(stdout, result, c.method, c.json)
	case c.json:
		err = report.JSON(stdout, result)
	default:
		err = report.Text(stdout, result, report.Style{Color: c.colored(stdout), Explain: c.explain})
	}
	if err != nil {
		fmt.Fprintln(stderr, "culprit-analyzer: writing the verdict:", err)
		return ExitCannot
	}
	return exitCode(class)
}

func writeHTML(name string, r *diagnosis.Result) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("creating the page: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return report.HTML(f, r)
}

// load reads the paths. A code other than 0 ends the command; the reason has been printed.
func (c *config) load(ctx context.Context, paths []string, stdin io.Reader, stderr io.Writer) (*load.Collection, int) {
	l := load.Loader{
		MaxFile: int64(c.maxFile), MaxTotal: int64(c.maxTotal), Columns: c.columns, Stdin: stdin, Watch: c.watch,
		Progress: load.NewProgress(stderr, !c.quiet && !c.json && isTerminal(stderr)),
	}
	got, err := l.Load(ctx, paths)
	switch {
	case errors.Is(err, context.Canceled):
		return nil, ExitCanceled
	case err != nil:
		fmt.Fprintln(stderr, "culprit-analyzer:", err)
		return nil, ExitNoInput
	}
	if got.Understood() == 0 {
		for _, f := range got.Files {
			fmt.Fprintln(stderr, "culprit-analyzer:", report.Plain(f.Line()))
		}
		fmt.Fprintln(stderr, "culprit-analyzer: nothing to analyze:", whyNothing(paths, got.Files))
		return nil, ExitData
	}
	return got, 0
}

// whyNothing says why files give nothing to analyze.
func whyNothing(paths []string, files []load.File) string {
	strange := func(f load.File) bool { return strings.HasPrefix(f.Error, load.NotRecognised) }
	switch {
	case len(files) == 0:
		return "no files in " + strings.Join(paths, " and ")
	case slices.ContainsFunc(files, strange):
		return fmt.Sprintf("none of %d files is of a kind that is understood", len(files))
	case slices.ContainsFunc(files, func(f load.File) bool { return f.Kind == "" }):
		return fmt.Sprintf("none of %d files could be read", len(files))
	}
	return "the logs say nothing of communication and of how processes ended; take stacks while the job hangs: " + report.TakeStacks
}

func (c *config) colored(w io.Writer) bool {
	switch c.color {
	case "always":
		return true
	case "never":
		return false
	default:
		return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(w)
	}
}

func exitCode(class rca.Class) int {
	switch class {
	case rca.Healthy, rca.Benign:
		return ExitHealthy
	case rca.Unknown, "":
		return ExitUnknown
	default:
		return ExitFound
	}
}

// isTerminal says whether w is a character device.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
