// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bufio"
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/internal/terminal"
)

const (
	plugin = "libnccl-profiler-culprit.so"
	hooks  = "libculprit-preload.so"
	// maxLibrary bounds how much of a library is searched for its version; NCCL has 300 MB at most.
	maxLibrary = 1 << 30
	// maxValue bounds what is printed of a variable, in characters.
	maxValue = 300
)

// oldest is the first release of NCCL with a profiler interface that the plugin can use.
var oldest = [2]int{2, 24}

// process is a running process that has NCCL mapped.
type process struct {
	pid     int
	name    string
	nccl    string // Path of the library, in the process's root.
	shim    string // Path of the plugin; empty: not mapped.
	hooks   bool
	traces  bool // Holds a trace file of the exporter's directories.
	starts  bool // Has started a process that does.
	env     map[string]string
	version string
}

// processes looks at all processes that use NCCL.
func processes(procfs string, dirs []string) []Finding {
	entries, err := os.ReadDir(procfs)
	if err != nil {
		return []Finding{{"processes", Failed, fmt.Sprintf("%s cannot be read: %v.", procfs, err), "set --path.procfs"}}
	}
	traces := traceFiles(dirs)
	versions := map[string]string{} // By file, since reading a library takes a second.
	var found []*process
	starts := map[int]bool{} // Processes that have started, themselves or through others, one whose trace file is seen.
	hidden := 0
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		p, err := inspect(procfs, pid, traces)
		if errors.Is(err, fs.ErrPermission) {
			hidden++
		}
		if err != nil || p == nil {
			continue // It ended meanwhile, or does not use NCCL.
		}
		found = append(found, p)
		for at := parent(procfs, pid); p.traces && at > 1 && !starts[at]; at = parent(procfs, at) {
			starts[at] = true
		}
	}
	var findings []Finding
	for _, p := range found {
		p.version = p.ncclVersion(procfs, versions)
		p.starts = starts[p.pid]
		findings = append(findings, p.judge(procfs, dirs))
	}
	if hidden > 0 && os.Geteuid() != 0 { // Root may be kept from a few that are not jobs.
		findings = append(findings, Finding{
			"processes", Warning, fmt.Sprintf("Processes that may not be looked at: %d.", hidden), "run this as root",
		})
	}
	if len(found) == 0 {
		findings = append(findings, Finding{"processes", NotAsked, "No running process has loaded NCCL. Run this again while a job runs.", ""})
	}
	return findings
}

// file identifies a file by its device, as /proc/PID/maps writes it, and inode.
type file struct{ device, inode string }

// traceFiles are the files in the directories and in those of the users.
func traceFiles(dirs []string) map[file]bool {
	out := map[file]bool{}
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(name string, _ fs.DirEntry, _ error) error { // What cannot be read holds no file of a process that is seen.
			var stat unix.Stat_t
			if strings.HasSuffix(name, ".trace") && unix.Lstat(name, &stat) == nil {
				out[file{fmt.Sprintf("%02x:%02x", unix.Major(stat.Dev), unix.Minor(stat.Dev)), strconv.FormatUint(stat.Ino, 10)}] = true
			}
			return nil
		})
	}
	return out
}

// inspect gives nil for a process without NCCL.
func inspect(procfs string, pid int, traces map[file]bool) (*process, error) {
	dir := filepath.Join(procfs, strconv.Itoa(pid))
	maps, err := os.Open(filepath.Join(dir, "maps"))
	if err != nil {
		return nil, err
	}
	defer maps.Close()
	p := &process{pid: pid}
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		// "7f00-7f10 r-xp 00000000 00:1a 77   /usr/lib/libnccl.so.2"
		f := strings.SplitN(lines.Text(), " ", 6)
		if len(f) < 6 {
			continue
		}
		p.traces = p.traces || traces[file{f[3], f[4]}]
		name := strings.TrimSuffix(strings.TrimLeft(f[5], " "), " (deleted)")
		switch base := filepath.Base(name); {
		case base == plugin:
			p.shim = name
		case base == hooks:
			p.hooks = true
		case strings.HasPrefix(base, "libnccl.so"):
			p.nccl = name
		}
	}
	if err := lines.Err(); err != nil || p.nccl == "" {
		return nil, err
	}
	comm, err := os.ReadFile(filepath.Join(dir, "comm"))
	if err != nil {
		return nil, err
	}
	p.name = strings.TrimSpace(string(comm))
	environ, err := os.ReadFile(filepath.Join(dir, "environ"))
	if err != nil {
		return nil, err
	}
	p.env = map[string]string{}
	for entry := range strings.SplitSeq(string(environ), "\x00") {
		if name, value, found := strings.Cut(entry, "="); found {
			p.env[name] = value
		}
	}
	return p, nil
}

// parent gives 0 for a process that has gone.
func parent(procfs string, pid int) int {
	status, err := os.ReadFile(filepath.Join(procfs, strconv.Itoa(pid), "status"))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "\nPPid:\t")
	line, _, _ := strings.Cut(rest, "\n")
	up, _ := strconv.Atoi(line)
	return up
}

// judge says what keeps a process from being seen.
func (p *process) judge(procfs string, dirs []string) Finding {
	// A job's user chooses the process's name and variables, and reads them here as others' facts and commands of root.
	who := fmt.Sprintf("Process %d (%s, NCCL %s)", p.pid, terminal.Quote(p.name), cmp.Or(p.version, "of unknown version"))
	fail := func(fact, do string) Finding { return Finding{"shim", Failed, who + " " + fact, do} }
	set := p.env["NCCL_PROFILER_PLUGIN"]
	quoted := func(text string) string { return terminal.Quote(terminal.Short(text, maxValue)) }
	switch {
	case p.shim == "" && p.hooks:
		return ok("shim", "%s has the preload hooks.", who)
	case p.shim == "" && p.starts:
		// PyTorch has NCCL mapped in torchrun's agent, too, which never makes a communicator.
		return ok("shim", "%s has started ranks that write trace files.", who)
	case p.shim == "" && p.tooOld():
		return fail("has no profiler interface that the plugin can use: NCCL 2.24 is the first.", "LD_PRELOAD="+hooks+" in the job's environment, or a newer NCCL")
	case p.shim == "" && set == "":
		return fail("has not loaded the shim: NCCL_PROFILER_PLUGIN is not set.", "in the job's environment: NCCL_PROFILER_PLUGIN="+plugin+" LD_LIBRARY_PATH=/usr/lib/culprit:$LD_LIBRARY_PATH")
	case p.shim == "" && !strings.HasSuffix(set, plugin) && set != "STATIC_PLUGIN":
		return fail("loads another profiler plugin: NCCL_PROFILER_PLUGIN="+quoted(set)+".", "in the job's environment: NCCL_PROFILER_PLUGIN="+plugin+" CULPRIT_CHAIN="+quoted(set))
	case p.shim == "" && strings.Contains(set, "/"):
		return fail("has not loaded the shim from the path "+quoted(set)+"; some releases of NCCL refuse a path.", "in the job's environment: NCCL_PROFILER_PLUGIN="+plugin+" LD_LIBRARY_PATH="+quoted(filepath.Dir(set))+":$LD_LIBRARY_PATH")
	case p.shim == "" && !p.onPath(procfs):
		return fail("has not loaded the shim: LD_LIBRARY_PATH has no folder with "+plugin+".", "in the job's environment: LD_LIBRARY_PATH=/usr/lib/culprit:$LD_LIBRARY_PATH")
	case p.shim == "":
		return Finding{"shim", Warning, who + " has not loaded the shim. NCCL loads it with the first communicator.", "if the job communicates already: NCCL_DEBUG=INFO shows why in the job's log"}
	case p.env["CULPRIT_DISABLE"] == "1":
		return fail("has the shim switched off: CULPRIT_DISABLE=1.", "remove CULPRIT_DISABLE from the job's environment")
	case !p.traces && p.env["CULPRIT_DIR"] != "" && !slices.Contains(dirs, filepath.Clean(p.env["CULPRIT_DIR"])):
		return fail("writes its trace file to "+quoted(p.env["CULPRIT_DIR"])+", which the exporter does not read.", "culprit-exporter --trace.dir="+quoted(p.env["CULPRIT_DIR"])+", or unset CULPRIT_DIR in the job")
	case !p.traces:
		return fail("has loaded the shim, but has no trace file in "+strings.Join(dirs, ", ")+".", "in a container: mount the host's "+dirs[0]+" at the same place. NCCL_DEBUG=INFO shows why in the job's log")
	}
	version := "its shim's version is unknown"
	if text := p.shimVersion(procfs); text != "" {
		version = quoted(text)
	}
	return ok("shim", "%s writes a trace file; %s.", who, version)
}

// tooOld is false while the version is unknown.
func (p *process) tooOld() bool {
	var major, minor int
	if _, err := fmt.Sscanf(p.version, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major < oldest[0] || major == oldest[0] && minor < oldest[1]
}

// inside is where a file of the process lies for us.
func (p *process) inside(procfs, name string) string {
	return filepath.Join(procfs, strconv.Itoa(p.pid), "root", name)
}

func (p *process) onPath(procfs string) bool {
	for dir := range strings.SplitSeq(p.env["LD_LIBRARY_PATH"], ":") {
		if _, err := os.Stat(p.inside(procfs, filepath.Join(dir, plugin))); dir != "" && err == nil {
			return true
		}
	}
	return false
}

var (
	versionInName = regexp.MustCompile(`libnccl\.so\.(\d+\.\d+\.\d+)$`)
	versionInText = regexp.MustCompile(`NCCL version (\d+\.\d+\.\d+)`)
)

// ncclVersion reads NCCL's version from its file's name, or from the text that NCCL prints it in.
func (p *process) ncclVersion(procfs string, known map[string]string) string {
	name := p.inside(procfs, p.nccl)
	if m := versionInName.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	f, err := openRegular(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return ""
	}
	key := fmt.Sprint(stat.Dev, "/", stat.Ino)
	if v, found := known[key]; found {
		return v
	}
	known[key] = search(io.LimitReader(f, maxLibrary), versionInText)
	return known[key]
}

// openRegular opens no FIFO and no device: the file is another user's, who can put a link to /dev/watchdog there, which resets the machine once
// it was opened. A descriptor for the path alone opens nothing yet.
func openRegular(name string) (*os.File, error) {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	return os.Open("/proc/self/fd/" + strconv.Itoa(fd))
}

// search gives the first group of the first match, without reading all at once.
func search(r io.Reader, pattern *regexp.Regexp) string {
	const overlap = 64 // Longer than any match.
	buffer := make([]byte, 1<<20)
	kept := 0
	for {
		n, err := io.ReadFull(r, buffer[kept:])
		if m := pattern.FindSubmatch(buffer[:kept+n]); m != nil {
			return string(m[1])
		}
		if err != nil {
			return ""
		}
		kept = copy(buffer, buffer[kept+n-overlap:kept+n])
	}
}

// shimVersion reads what the mapped plugin says of itself.
func (p *process) shimVersion(procfs string) string {
	f, err := openRegular(p.inside(procfs, p.shim))
	if err != nil {
		return ""
	}
	defer f.Close()
	library, err := elf.NewFile(f)
	if err != nil {
		return ""
	}
	section := library.Section(".culprit.version")
	if section == nil || section.Size > 1024 {
		return ""
	}
	text, err := section.Data()
	if err != nil {
		return ""
	}
	text, _, _ = bytes.Cut(text, []byte{0})
	return strings.ToValidUTF8(string(text), "?")
}
