// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/culprit-project/culprit/analyzer/kept"
	"github.com/culprit-project/culprit/analyzer/offline/flightrecorder"
	"github.com/culprit-project/culprit/analyzer/offline/flows"
	"github.com/culprit-project/culprit/analyzer/offline/grammar"
	"github.com/culprit-project/culprit/analyzer/offline/inspector"
	"github.com/culprit-project/culprit/analyzer/offline/joblog"
	"github.com/culprit-project/culprit/analyzer/offline/kineto"
	"github.com/culprit-project/culprit/analyzer/offline/optable"
	"github.com/culprit-project/culprit/analyzer/offline/pickle"
	"github.com/culprit-project/culprit/analyzer/offline/ras"
	"github.com/culprit-project/culprit/analyzer/offline/recording"
	"github.com/culprit-project/culprit/analyzer/offline/stackdump"
)

// Kinds of files, as the output names them.
const (
	kindFlightRecorder = "Flight Recorder dump"
	kindRAS            = "NCCL RAS report"
	kindOpTable        = "op table"
	kindFlows          = "flows' byte counters"
	kindTrace          = "trace file"
	kindKept           = "kept evidence"
	kindNodeAPI        = "recorded exporter answer"
	kindInspector      = "NCCL Inspector log"
	kindKineto         = "Chrome trace"
	kindStacks         = "stacks"
	kindJobLog         = "job log"
	kindPage           = "page of the debug server"
	kindEvents         = "training events"
	kindJobLogStacks   = kindJobLog + " with stacks"
	kindJobLogRAS      = kindJobLog + " with a RAS report"
)

// reader tries one kind of content. It says first whether data is of its kind; err is then about the content.
type reader struct {
	kind string
	mine func(head []byte) bool
	read func(name string, data []byte, got *Collection) (warning string, err error)
}

// readers in order of how sure their recognition is.
func (l *Loader) readers(ctx context.Context) []reader {
	return []reader{
		{kindTrace, recording.SniffTrace, readRecording(one(recording.ReadTrace))},
		{kindFlightRecorder, pickle.Sniff, readFlightRecorder},
		{kindFlows, func(b []byte) bool { return len(l.Columns) == 0 && flows.Sniff(b) }, readFlows},
		{kindKept, func(b []byte) bool { return looksJSON(b) && kept.Sniff(b) }, readKept},
		{kindRAS, ras.SniffJSON, readRASJSON},
		{kindNodeAPI, func(b []byte) bool { return looksJSON(b) && recording.SniffJSON(b) }, readRecording(recording.ReadJSON)},
		// Before dumps in JSON: newer profilers write the groups' configuration under the same name.
		{kindKineto, func(b []byte) bool { return looksJSON(b) && kineto.Sniff(b) }, readKineto},
		{kindFlightRecorder, sniffFlightRecorderJSON, readFlightRecorder},
		{kindInspector, func(b []byte) bool { return looksJSON(b) && inspector.SniffJSON(b) }, readInspector(inspector.ParseJSON)},
		{kindPage, sniffPage, l.readPage(ctx)},
		{kindEvents, joblog.SniffEvents, readEvents},
		{kindStacks, func(b []byte) bool { return stackdump.Sniff(b) && !grammar.Any(b) }, readStacks},
		{kindJobLogStacks, sniffStacksInLog, readLogWithStacks},
		{kindStacks, stackdump.Sniff, readStacks},
		{kindJobLogRAS, func(b []byte) bool { return ras.SniffText(b) && joblog.Sniff(b) }, both(readRASText, readJobLog)},
		{kindRAS, func(b []byte) bool { return !looksJSON(b) && ras.SniffText(b) }, readRASText},
		{kindJobLog, joblog.Sniff, readJobLog},
		{kindInspector, func(b []byte) bool { return !looksJSON(b) && inspector.SniffText(b) }, readInspector(inspector.ParseText)},
		{kindOpTable, func(b []byte) bool { return !looksJSON(b) && optable.Sniff(b, l.Columns) }, l.readOpTable(ctx)},
		{kindJobLog, func(b []byte) bool { return (!looksJSON(b) || grammar.InJSON(b)) && joblog.SniffFailure(b, l.alone) }, readJobLog},
		{kindJobLog, joblog.SniffQuiet, readQuietLog},
	}
}

// understand finds out what a file is and reads it.
func (l *Loader) understand(ctx context.Context, name string, data []byte, got *Collection) {
	understand(l.readers(ctx), name, data, got)
}

func understand(readers []reader, name string, data []byte, got *Collection) {
	res := File{Path: name, Bytes: int64(len(data))}
	defer func() {
		// Whatever a file makes a reader do costs the file alone.
		if p := recover(); p != nil {
			res.Kind, res.Warning, res.Error = "", "", fmt.Sprintf("reading it failed, which is a defect: %v", p)
			add(got, &got.Files, res)
		}
	}()
	data = narrow(data)
	for _, r := range readers {
		if !r.mine(data) {
			continue
		}
		warning, err := r.read(name, data, got)
		res.Kind, res.Warning = r.kind, warning
		if err != nil {
			res.Error = fmt.Sprintf("%s: %v", r.kind, err)
			if warning == "" {
				res.Kind = ""
			}
		}
		add(got, &got.Files, res)
		return
	}
	res.Error = NotRecognised + describe(data)
	add(got, &got.Files, res)
}

// isLog says that a file is text in lines that is none of the other kinds.
func (l *Loader) isLog(ctx context.Context, head []byte) bool {
	if bytes.IndexByte(head, 0) >= 0 || !utf8.Valid(head[:max(0, len(head)-utf8.UTFMax)]) {
		return false
	}
	for _, r := range l.readers(ctx) {
		if r.kind != kindJobLog && r.kind != kindJobLogRAS && r.kind != kindJobLogStacks && r.kind != kindRAS && r.mine(head) {
			return false
		}
	}
	return !looksJSON(head) || grammar.InJSON(head)
}

// narrow gives text in UTF-16, as redirections on Windows write it, as UTF-8. Its byte order mark tells it.
func narrow(data []byte) []byte {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}):
		order = binary.LittleEndian
	case bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		order = binary.BigEndian
	default:
		return data
	}
	wide := make([]uint16, 0, len(data)/2)
	for i := 2; i+1 < len(data); i += 2 {
		wide = append(wide, order.Uint16(data[i:]))
	}
	return []byte(string(utf16.Decode(wide)))
}

// NotRecognised starts the error of a file that no reader takes.
const NotRecognised = "not recognised: "

// describe says in a word what unrecognised content looks like.
func describe(data []byte) string {
	head := data[:min(len(data), 512)]
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return "a zip archive without files to read, such as a model"
	case bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")):
		return "packed by xz: unpack it first"
	case bytes.HasPrefix(head, []byte("\x7fELF")):
		return "a program"
	case looksJSON(head):
		if err := json.NewDecoder(bytes.NewReader(data)).Decode(new(json.RawMessage)); errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Sprintf("JSON that ends early, after %d bytes", len(data))
		}
		return "JSON of another kind"
	case !utf8.Valid(head[:max(0, len(head)-utf8.UTFMax)]) || bytes.IndexByte(head, 0) >= 0:
		return "binary data of another kind"
	case looksTabular(head):
		return "a table without columns for rank, operation and start: name them with --column"
	default:
		return "text of another kind"
	}
}

// looksTabular reports whether text begins with a header and a row of as many fields.
func looksTabular(head []byte) bool {
	header, rest, more := strings.Cut(string(head), "\n")
	row, _, _ := strings.Cut(rest, "\n")
	commas := strings.Count(header, ",")
	return more && commas > 0 && strings.Count(row, ",") == commas && !strings.ContainsAny(header, " \t:=")
}

// looksJSON tells JSON from text; lines of logs begin with brackets too.
func looksJSON(b []byte) bool {
	const blank = " \t\r\n\ufeff"
	b = bytes.TrimLeft(b, blank)
	if len(b) == 0 || b[0] != '[' {
		return len(b) > 0 && b[0] == '{'
	}
	b = bytes.TrimLeft(b[1:], blank)
	return len(b) > 0 && bytes.IndexByte([]byte(`{["]`), b[0]) >= 0
}

func sniffFlightRecorderJSON(b []byte) bool {
	if !looksJSON(b) {
		return false
	}
	head := b[:min(len(b), 64<<10)]
	tail := b[max(0, len(b)-64<<10):]
	has := func(key string) bool { return bytes.Contains(head, []byte(key)) || bytes.Contains(tail, []byte(key)) }
	return has(`"pg_config"`) || has(`"pg_status"`) || (has(`"entries"`) && has(`"collective_seq_id"`))
}

func readFlightRecorder(name string, data []byte, got *Collection) (string, error) {
	d, err := flightrecorder.Decode(name, data, &got.shared)
	if errors.Is(err, flightrecorder.ErrNotDump) {
		return "", errors.New("a pickle or JSON of something else")
	}
	if err != nil {
		return "", err
	}
	add(got, &got.dumps, d)
	var warnings []string
	if d.Truncated {
		warnings = append(warnings, fmt.Sprintf("cut off: used the %d operations before the end", d.Recorded))
	}
	if len(d.Refused) > 0 {
		warnings = append(warnings, "holds code, which was not run: "+strings.Join(d.Refused, ", "))
	}
	return strings.Join(warnings, "; "), nil
}

// readKept reads what the service has kept of a verdict.
func readKept(_ string, data []byte, got *Collection) (string, error) {
	r, err := kept.Parse(data)
	if err != nil {
		return "", err
	}
	add(got, &got.kept, r)
	return "", nil
}

func readRASJSON(name string, data []byte, got *Collection) (string, error) {
	reports, err := ras.ParseJSON(name, data)
	add(got, &got.ras, reports...)
	if err != nil && len(reports) > 0 {
		return fmt.Sprintf("cut off, what was whole is used: %v", err), nil
	}
	return "", err
}

func readRASText(name string, data []byte, got *Collection) (string, error) {
	r, err := ras.ParseText(name, data)
	if err != nil {
		return "", err
	}
	add(got, &got.ras, r)
	return "", nil
}

func readJobLog(name string, data []byte, got *Collection) (string, error) {
	l, err := joblog.Parse(name, data, flightrecorder.RankWordInName(name))
	if err != nil {
		return "", err
	}
	add(got, &got.jobLog, l)
	return "", nil
}

func readEvents(name string, data []byte, got *Collection) (string, error) {
	l, err := joblog.ParseEvents(name, data)
	if err != nil {
		return "", err
	}
	add(got, &got.jobLog, l)
	return "", nil
}

// readQuietLog reads the log of ranks that say nothing of communication: while others' logs do, that says something.
func readQuietLog(name string, data []byte, got *Collection) (string, error) {
	add(got, &got.quiet, joblog.ParseQuiet(name, data))
	return "says nothing of communication", nil
}

// sniffStacksInLog recognises stacks behind labels, or in the midst of a log.
func sniffStacksInLog(b []byte) bool {
	some := bytes.Contains(b, []byte("Thread ")) && (bytes.Contains(b, []byte(" (idle")) || bytes.Contains(b, []byte(" (active"))) || bytes.Contains(b, []byte("(most recent call first)"))
	return some && !looksJSON(b) && stackdump.Within(grammar.Plain(b))
}

// readLogWithStacks reads the stacks in a log, and the rest of it.
func readLogWithStacks(name string, data []byte, got *Collection) (string, error) {
	warning, err := readStacks(name, grammar.Plain(data), got)
	if joblog.Sniff(data) {
		_, err2 := readJobLog(name, data, got)
		if err2 == nil {
			err = nil
		}
	}
	return warning, err
}

// both reads what holds two kinds of things; one of them suffices.
func both(a, b func(string, []byte, *Collection) (string, error)) func(string, []byte, *Collection) (string, error) {
	return func(name string, data []byte, got *Collection) (string, error) {
		first, err1 := a(name, data, got)
		second, err2 := b(name, data, got)
		if err1 != nil && err2 != nil {
			return "", errors.Join(err1, err2)
		}
		return first + second, nil
	}
}

func (l *Loader) readOpTable(ctx context.Context) func(string, []byte, *Collection) (string, error) {
	return func(name string, data []byte, got *Collection) (string, error) {
		t, err := optable.Read(ctx, name, data, l.Columns, flightrecorder.RankInName(name))
		if err != nil {
			return "", err
		}
		add(got, &got.tables, t)
		return tableWarning(t), nil
	}
}

func readFlows(name string, data []byte, got *Collection) (string, error) {
	r, err := flows.Read(name, data)
	if err != nil {
		return "", err
	}
	add(got, &got.flows, r)
	if r.CutOff {
		return "cut off: used what came before", nil
	}
	return "", nil
}

func tableWarning(t *optable.Table) string {
	var warnings []string
	if t.Skipped > 0 {
		warnings = append(warnings, fmt.Sprintf("%d of %d rows left out: no rank, operation or times in them", t.Skipped, t.Skipped+len(t.Rows)))
	}
	if t.CutOff {
		warnings = append(warnings, "cut off: used what came before")
	}
	return strings.Join(warnings, "; ")
}

// one adapts a reader of a single node.
func one(read func(string, []byte) (*recording.Node, error)) func(string, []byte) ([]*recording.Node, error) {
	return func(name string, data []byte) ([]*recording.Node, error) {
		n, err := read(name, data)
		if err != nil {
			return nil, err
		}
		return []*recording.Node{n}, nil
	}
}

func readRecording(read func(string, []byte) ([]*recording.Node, error)) func(string, []byte, *Collection) (string, error) {
	return func(name string, data []byte, got *Collection) (string, error) {
		nodes, err := read(name, data)
		add(got, &got.nodes, nodes...)
		if err != nil && len(nodes) > 0 {
			return fmt.Sprintf("only the first %d answers are whole: %v", len(nodes), err), nil
		}
		return "", err
	}
}

func readInspector(parse func(string, []byte) (*inspector.Log, error)) func(string, []byte, *Collection) (string, error) {
	return func(name string, data []byte, got *Collection) (string, error) {
		l, err := parse(name, data)
		if err != nil {
			return "", err
		}
		add(got, &got.logs, l)
		return "", nil
	}
}

func readKineto(name string, data []byte, got *Collection) (string, error) {
	t, err := kineto.Parse(name, data, flightrecorder.RankInName(name))
	if errors.Is(err, kineto.ErrNoKernels) {
		// Tables of operations come in this form, too.
		if table, notTable := optable.ReadChrome(name, data, flightrecorder.RankInName(name)); notTable == nil {
			add(got, &got.tables, table)
			return tableWarning(table), nil
		}
	}
	if err != nil {
		return "", err
	}
	add(got, &got.traces, t)
	if t.CutOff {
		return "cut off: used what came before", nil
	}
	return "", nil
}

func readStacks(name string, data []byte, got *Collection) (string, error) {
	p, err := stackdump.Parse(name, data)
	if err != nil {
		return "", err
	}
	add(got, &got.stacks, p...)
	return "", nil
}
