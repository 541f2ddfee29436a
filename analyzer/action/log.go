// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"
)

// Event is what an entry of the audit log tells of.
type Event string

// Events of an action.
const (
	WouldRun Event = "would_run" // The rule is on its dry run.
	Started  Event = "started"
	Done     Event = "done"
	Failed   Event = "failed"
	Refused  Event = "refused"
)

// Entry is one line of the audit log.
type Entry struct {
	At    time.Time `json:"at"`
	Event Event     `json:"event"`
	Subject
	Reason  string  `json:"reason,omitempty"` // Why it was refused, or failed.
	Output  string  `json:"output,omitempty"` // The beginning of what the command or the receiver said.
	Seconds float64 `json:"seconds,omitempty"`
}

// mostEntries bounds what is remembered. The file keeps all.
const mostEntries = 10_000

// Log is the audit log: a file with one JSON object a line, to which is only added.
type Log struct {
	mu      sync.Mutex
	file    *os.File // Nil: the log is kept in memory alone.
	entries []Entry  // The newest ones, oldest first.
}

// OpenLog opens the audit log; without a name it is kept in memory. A line that a crash cut off is left where it is.
func OpenLog(name string) (*Log, error) {
	l := &Log{}
	if name == "" {
		return l, nil
	}
	whole, err := l.read(name)
	if err != nil {
		return nil, fmt.Errorf("reading the audit log: %w", err)
	}
	if l.file, err = os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640); err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	if !whole {
		if _, err := l.file.WriteString("\n"); err != nil {
			return nil, errors.Join(fmt.Errorf("ending the audit log's last line: %w", err), l.file.Close())
		}
	}
	return l, nil
}

// maxLine bounds a line that is read: an entry lists at most rca.MaxCulprits hosts.
const maxLine = 1 << 20

// read takes over what a file holds, and tells whether its last line is whole.
func (l *Log) read(name string) (whole bool, err error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var e Entry
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Event != "" {
			l.remember(e)
		}
	}
	return len(text) == 0 || text[len(text)-1] == '\n', lines.Err()
}

func (l *Log) remember(e Entry) {
	if l.entries = append(l.entries, e); len(l.entries) > mostEntries {
		l.entries = slices.Delete(l.entries, 0, len(l.entries)-mostEntries)
	}
}

// Add writes an entry, and returns once it is on the disk.
func (l *Log) Add(e Entry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_, err := l.file.Write(append(text, '\n'))
		if err = errors.Join(err, l.file.Sync()); err != nil {
			return fmt.Errorf("writing the audit log: %w", err)
		}
	}
	l.remember(e)
	return nil
}

// Entries gives the newest entries of an incident, or with an empty id of all, oldest first.
func (l *Log) Entries(incident string) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []Entry{}
	for i := range l.entries {
		if incident == "" || l.entries[i].Incident == incident {
			out = append(out, l.entries[i])
		}
	}
	return out
}

// has reports whether an action had an event on an incident; with a reason, for that reason.
func (l *Log) has(event Event, action, incident, reason string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.entries, func(e Entry) bool {
		return e.Event == event && e.Action == action && e.Incident == incident && (reason == "" || e.Reason == reason)
	})
}

// touched gives the hosts that actions ran for since a time, and when the last one began.
func (l *Log) touched(since time.Time) (hosts []string, last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.entries {
		e := &l.entries[i]
		if e.Event != Started {
			continue
		}
		if e.At.After(last) {
			last = e.At
		}
		if e.At.Before(since) {
			continue
		}
		for _, h := range e.Hosts {
			if !slices.Contains(hosts, h) {
				hosts = append(hosts, h)
			}
		}
	}
	return hosts, last
}

// Close closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
