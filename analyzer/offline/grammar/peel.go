// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package grammar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// Terminals, launchers and collectors of logs put their own around each line, and break long ones. Plain takes that off, so that
// what a process wrote is read as it wrote it. Labels that tell the rank become PyTorch's own; those that tell a process become
// "[proc NAME pid=N]: ".

// RankLabel is what PyTorch puts before every message of a process, since 2.2.
var RankLabel = re(`\[rank(\d+)[\]\[]`)

// ProcLabel is what Plain makes of a program's own label of its process. With a colon it stands on every line, without it on the
// first of a message.
var ProcLabel = re(`\[proc (\S*?) pid=(\d+)\](:?) `)

var colour = re("(?:\x1b|\\^\\[|#033|#x1[Bb])\\[[0-9;?]*[A-Za-z]|\\[\\d{1,2}(?:;\\d{1,3})*m")

// label is what somebody puts before lines.
type label struct {
	by string
	re *regexp.Regexp
	// share of the lines in a sample must have it, so that text which only looks like it is left alone. 0: it is taken wherever
	// it stands, because nothing else looks like it.
	share float64
	// ranks: its group is the rank, unless lines say otherwise.
	ranks bool
}

// labels in the order in which they are tried; one text may have several, one within another.
var labels = []label{
	{by: "Kubernetes' CRI", re: re(`^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (?:stdout|stderr) ([FP]) ?`), share: 0.9},
	{by: "kubectl logs --prefix", re: re(`^\[pod/[^\]\s]+\] ?`), share: 0.5},
	{by: "vLLM", re: re(`^\((?:APIServer|EngineCore|DPCoordinator|Worker|VllmWorker|RayWorkerWrapper)\w*(?: rank=\d+)?(?: pid=\d+)?(?:, ip=[\w.:]+)?\) ?`)},
	{by: "vLLM's logger", re: re(`^(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? (?:\[[\w./]+:\d+\]|[\w./]+:\d+\])(?: |$)`)},
	{by: "SGLang", re: re(`^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: (?:DP\d+|PP\d+|TP\d+|EP\d+|CP\d+|ATTN\w+|MOE\w+))+\] ?`)},
	{by: "Ray", re: re(`^\((?:[\w.:<>-]+ )?pid=\d+(?:, ip=[\d.]+)?\) ?`), share: 0.1},
	{by: "PyTorch Lightning", re: re(`^\[rank: (\d+)\] ?`), share: 0.1, ranks: true},
	{by: "mpirun and prterun --tag-output", re: re(`^\s*\[(?:\d+|(?:prterun|mpirun)-\S+?@\d+),(\d+)\]<std(?:out|err|diag)>: ?`), share: 0.5, ranks: true},
	{by: "horovodrun", re: re(`^\[(\d+)\]<std(?:out|err)>: ?`), share: 0.5, ranks: true},
	{by: "srun --label", re: re(`^\s*(\d+): `), share: 0.9, ranks: true},
	{by: "docker compose and docker service logs", re: re(`^[\w.@-]+ *\|(?: |$)`), share: 0.9},
	{by: "dates before lines", re: re(`^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,]*(?:Z|[+-]\d\d:?\d\d| UTC)? `), share: 0.9},
	{by: "Determined's command line", re: re(`^(?:> )?\[\w*\] \[rank=(\d+)\] ?`), ranks: true},
	{by: "Determined", re: re(`^\[\d{4}-\d\d-\d\d[T ][\d:.]+Z?\] \w+ \[rank=(\d+)\] \|\| ?`), share: 0.5, ranks: true},
	{by: "polyaxon", re: re(`^[a-z]\w*\.\d+ -- `), share: 0.9},
	{by: "accelerate test and other wrappers of commands", re: re(`^(?:stderr|stdout)(?: ?[:|] ?|$)`), share: 0.5},
	{by: "numbers and marks of quoted lines", re: re(`^(?:\[\d+\]|>)(?: |$)`), share: 0.9},
	{by: "journalctl and syslog", re: re(`^[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d [\w.-]+ [\w./@-]+\[\d+\]: `), share: 0.9},
	{by: "pdsh and ansible", re: re(`^[a-z][\w-]*\d[\w.-]*: `), share: 0.9},
	{by: "stern", re: re(`^[a-z][a-z0-9-]*-[a-z0-9]+ [a-z][a-z0-9-]* (?:› )?`), share: 0.95},
	{by: "torchrun --tee", re: re(`^\[[A-Za-z]\w*?(?:\|)?(\d+)\]:(?: )?`), share: 0.3, ranks: true},
}

// kept is what an earlier round has left of a label.
var kept = re(`^(?:\[rank\d+\]: |\[proc \S*? pid=\d+\]:? )+`)

var repeated = re(`\[repeated (\d+)x across cluster\]`)

// Plain gives a text without what others put around its lines.
func Plain(text []byte) []byte {
	if bytes.IndexByte(text, '\r') >= 0 {
		text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n")) // Progress bars.
	}
	if bytes.IndexByte(text, 0x1b) >= 0 || bytes.Contains(text, []byte("[0m")) {
		text = colour.ReplaceAll(text, nil)
	}
	if own, ok := errorFile(text); ok {
		return own
	}
	text = outOfJSON(text)
	if again := []byte("]<std"); bytes.Contains(text, again) {
		text = labelledOnce(text)
	}
	for range 8 { // A collector within another.
		peel := wrapper(text)
		if peel == nil {
			break
		}
		text = peeled(text, peel)
	}
	return unbroken(text)
}

// errorFile gives the traceback in the file that TorchElastic writes of a process that failed: in the first versions a list of the
// writer's own frames, after which nothing but the message tells.
func errorFile(text []byte) ([]byte, bool) {
	text = bytes.TrimSpace(text)
	if !bytes.HasPrefix(text, []byte(`{"message"`)) {
		return nil, false
	}
	var file struct {
		Message struct {
			Message   string
			ExtraInfo struct {
				Stack json.RawMessage `json:"py_callstack"`
			}
		}
	}
	if json.Unmarshal(text, &file) != nil || file.Message.Message == "" {
		return nil, false
	}
	var stack string
	if json.Unmarshal(file.Message.ExtraInfo.Stack, &stack) == nil && stack != "" {
		return []byte(stack), true
	}
	return []byte("Traceback (most recent call last):\n" + file.Message.Message + "\n"), true
}

// InJSON reports whether lines are kept in JSON, one object each, as Docker and collectors of logs do.
func InJSON(text []byte) bool {
	_, ok := jsonLine(firstLine(bytes.TrimLeft(text, " \n\ufeff")))
	if !ok {
		_, ok = errorFile(text)
	}
	return ok
}

func firstLine(text []byte) []byte {
	line, _, _ := bytes.Cut(text, []byte{'\n'})
	return line
}

// jsonLine takes the line out of its object.
func jsonLine(line []byte) (string, bool) {
	if len(line) < 2 || line[0] != '{' || line[1] != '"' {
		return "", false
	}
	var entry struct {
		Log, Message, Msg, Line, Text, MESSAGE *string
		Stream                                 string
		Data, Frames, Entries, TraceEvents     json.RawMessage
	}
	if json.Unmarshal(line, &entry) != nil || entry.Frames != nil || entry.Entries != nil || entry.TraceEvents != nil {
		return "", false
	}
	for _, s := range []*string{entry.Log, entry.Message, entry.MESSAGE, entry.Msg, entry.Line, entry.Text} {
		if s != nil {
			return *s, true
		}
	}
	var data string // As wrappers of commands write lines.
	return data, json.Unmarshal(entry.Data, &data) == nil
}

// outOfJSON takes lines out of JSON. A line of Docker's without an end goes on in the next; others' have none.
func outOfJSON(text []byte) []byte {
	if _, ok := jsonLine(firstLine(bytes.TrimLeft(text, " \n\ufeff"))); !ok {
		return text
	}
	docker := bytes.HasPrefix(bytes.TrimLeft(text, " \n\ufeff"), []byte(`{"log":`))
	out := make([]byte, 0, len(text))
	for line := range bytes.Lines(text) {
		s, ok := jsonLine(bytes.TrimSpace(line))
		if !ok {
			out = append(out, line...)
			continue
		}
		out = append(out, s...)
		if !docker && (s == "" || s[len(s)-1] != '\n') {
			out = append(out, '\n')
		}
	}
	return out
}

// peeler takes off what stands before a line and gives what is kept of it; goesOn says that the line's end is on the next.
type peeler func(line []byte) (rest []byte, keep string, goesOn bool)

// wrapper finds out what stands before the text's lines; nil for nothing.
func wrapper(text []byte) peeler {
	const sample = 64 << 10
	lines := 0
	hits := make([]int, len(labels))
	for line := range bytes.Lines(text[:min(len(text), sample)]) {
		line = bytes.TrimRight(line, "\n")
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		lines++
		line = line[len(kept.Find(line)):]
		for i := range labels {
			if labels[i].re.Match(line) {
				hits[i]++
			}
		}
	}
	for i := range labels {
		l := &labels[i]
		if hits[i] == 0 || float64(hits[i]) < l.share*float64(lines) {
			continue
		}
		ranks := l.ranks && !contradicts(text, l.re)
		return func(line []byte) ([]byte, string, bool) {
			m := l.re.FindSubmatchIndex(line)
			if m == nil {
				return line, "", false
			}
			value := ""
			if len(m) > 3 && m[2] >= 0 {
				value = string(line[m[2]:m[3]])
			}
			return line[m[1]:], l.keep(line[:m[1]], value, ranks), value == "P"
		}
	}
	return nil
}

// keep gives what is kept of a label.
func (l *label) keep(whole []byte, value string, ranks bool) string {
	switch l.by {
	case "vLLM":
		if m := vllmLabel.FindSubmatch(whole); m != nil {
			pid := "0"
			if len(m[3]) > 0 {
				pid = string(m[3])
			}
			name := string(m[1])
			if len(m[2]) > 0 {
				name += "_RANK" + string(m[2])
			}
			return "[proc " + name + " pid=" + pid + "]: "
		}
	case "Ray":
		if m := rayLabel.FindSubmatch(whole); m != nil {
			return "[proc " + string(m[1]) + " pid=" + string(m[2]) + "]: "
		}
	case "SGLang":
		if m := parallelParts.FindAll(whole, -1); m != nil {
			return "[proc " + string(bytes.Join(m, []byte("_"))) + " pid=0] "
		}
	}
	if n, err := strconv.Atoi(value); ranks && err == nil && n >= 0 && n < maxRank {
		return fmt.Sprintf("[rank%d]: ", n)
	}
	return ""
}

const maxRank = 1 << 17

var (
	vllmLabel     = re(`^\((Worker\w*|VllmWorker\w*|RayWorkerWrapper\w*|EngineCore\w*|DPCoordinator\w*)(?: rank=(\d+))?(?: pid=(\d+))?`)
	rayLabel      = re(`^\((?:([\w.:<>-]+) )?pid=(\d+)`)
	parallelParts = re(`\b(?:DP|PP|TP|EP|CP)\d+\b`)
)

// contradicts says that a label's number is not the rank: lines that have PyTorch's own name another one.
func contradicts(text []byte, label *regexp.Regexp) bool {
	for line := range bytes.Lines(text) {
		m := label.FindSubmatch(line)
		if m == nil {
			continue
		}
		if own := RankLabel.FindSubmatch(line); own != nil && !bytes.Equal(own[1], m[1]) {
			return true
		}
	}
	return false
}

var tag = re(`\[\d+,\d+\]<std(?:out|err|diag)>: ?`)

// labelledOnce takes the labels out of lines that a program wrote in pieces, each of which mpirun gave one. The first stays.
func labelledOnce(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for line := range bytes.Lines(text) {
		if at := tag.FindIndex(line); at != nil {
			out = append(append(out, line[:at[1]]...), tag.ReplaceAll(line[at[1]:], nil)...)
			continue
		}
		out = append(out, line...)
	}
	return out
}

func peeled(text []byte, peel peeler) []byte {
	out := make([]byte, 0, len(text))
	within := false
	for line := range bytes.Lines(text) {
		before := kept.Find(line)
		rest, keep, goesOn := peel(line[len(before):])
		if !within {
			if keep != "" && bytes.HasPrefix(before, []byte("[proc EngineCore")) {
				before = nil // It passes on what its worker says.
			}
			out = append(out, before...)
			if keep != "" && !RankLabel.Match(rest) {
				out = append(out, keep...)
			}
		}
		if within = goesOn; within {
			rest = bytes.TrimRight(rest, "\n")
		}
		out = append(out, rest...)
	}
	return out
}

// unbroken joins what was broken at a fixed width, inside words too: many lines are then exactly as long as the longest.
func unbroken(text []byte) []byte {
	const (
		narrowest = 60
		few       = 4
	)
	widest, lines, long := 0, 0, 0
	for line := range bytes.Lines(text) {
		lines++
		switch n := len(unpadded(line)); {
		case n > widest:
			widest, long = n, 1
		case n == widest:
			long++
		}
	}
	const share = 20 // A twentieth of all lines.
	if widest < narrowest || long < few || share*long < lines {
		return mended(text, narrowest)
	}
	out := make([]byte, 0, len(text))
	for at := 0; at < len(text); {
		end := len(text)
		if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		line := text[at:end]
		if body := unpadded(line); len(body) == widest && !alike(body, text[end:]) {
			line = body
		}
		out = append(out, line...)
		at = end
	}
	return out
}

// mended joins the long lines of a few that were broken inside a word by which a message is known.
func mended(text []byte, narrowest int) []byte {
	const reach = 64 // Bytes on each side of a break; words are shorter.
	var out []byte
	from := 0
	for at := 0; at < len(text); {
		i := bytes.IndexByte(text[at:], '\n')
		if i < 0 || at+i+1 == len(text) {
			break
		}
		end := at + i
		if i >= narrowest && !isSpace(text[end-1]) && !isSpace(text[end+1]) {
			left := text[max(at, end-reach):end]
			right := firstLine(text[end+1 : min(len(text), end+1+reach)])
			joined := append(append(make([]byte, 0, 2*reach), left...), right...)
			for off := 0; ; off++ {
				hit, ids := anchors.next(joined, off)
				if hit < 0 || hit >= len(left) {
					break
				}
				if off = hit; slices.ContainsFunc(ids, func(id int) bool { return hit+len(anchors.words[id]) > len(left) }) {
					out, from = append(out, text[from:end]...), end+1
					break
				}
			}
		}
		at = end + 1
	}
	if out == nil {
		return text
	}
	return append(out, text[from:]...)
}

// unpadded is a line without its end, and without the blanks with which terminals fill lines up.
func unpadded(line []byte) []byte {
	line = bytes.TrimRight(line, "\n")
	if bytes.HasSuffix(line, []byte("  ")) {
		return bytes.TrimRight(line, " ")
	}
	return line
}

// alike reports whether the next line begins as this one does: then it is one of its own, of the same length by chance.
func alike(line, next []byte) bool {
	const beginning = 3
	return len(next) >= beginning && bytes.Equal(line[:beginning], next[:beginning])
}

// Repeats is how many lines of other processes a collector left out as the same.
func Repeats(text []byte) int {
	n := 0
	const most = 1 << 16
	for _, m := range repeated.FindAllSubmatch(text, most) {
		if k, err := strconv.Atoi(string(m[1])); err == nil && k > 0 && k < maxRank {
			n += k
		}
	}
	return n
}
