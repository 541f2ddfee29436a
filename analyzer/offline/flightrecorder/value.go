// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flightrecorder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/culprit-project/culprit/analyzer/offline/pickle"
)

// fields is a dict of either encoding.
type fields interface {
	get(key string) any
	each(f func(key string, v any))
}

type pickled struct{ *pickle.Dict }

func (p pickled) get(key string) any { return p.Get(key) }

func (p pickled) each(f func(string, any)) {
	for i, k := range p.Keys {
		switch k := k.(type) {
		case string:
			f(k, p.Values[i])
		case int64:
			f(strconv.FormatInt(k, 10), p.Values[i])
		}
	}
}

type jsonObject map[string]any

func (o jsonObject) get(key string) any { return o[key] }

func (o jsonObject) each(f func(string, any)) {
	for _, k := range slices.Sorted(maps.Keys(o)) {
		f(k, o[k])
	}
}

func object(v any) fields {
	switch v := v.(type) {
	case *pickle.Dict:
		return pickled{v}
	case map[string]any:
		return jsonObject(v)
	}
	return nil
}

func list(v any) ([]any, bool) {
	switch v := v.(type) {
	case *pickle.List:
		return v.Items, true
	case pickle.Tuple:
		return v, true
	case []any:
		return v, true
	}
	return nil, false
}

func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case json.Number:
		return v.String()
	}
	return ""
}

func firstText(vs ...any) string {
	for _, v := range vs {
		if s := text(v); s != "" {
			return s
		}
	}
	return ""
}

func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		if math.Abs(v) < 1<<53 {
			return int64(v), true
		}
	case json.Number:
		n, err := v.Int64()
		return n, err == nil
	case string:
		n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		return n, err == nil
	}
	return 0, false
}

func number(v any, otherwise int64) int64 {
	if n, ok := integer(v); ok {
		return n
	}
	return otherwise
}

func real(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	}
	return 0, false
}

// Shared holds what many dumps of a job have in common, so that it is read and kept once. It may be used by several
// goroutines; the zero value is ready.
type Shared struct {
	mu      sync.Mutex
	members map[string]members // By the list's text.
}

// members is a group's member list and its hash.
type members struct {
	ranks []int
	hash  uint32
}

// ranks reads a member list: a list of numbers, or its text "[0, 1, 2]".
func (s *Shared) ranks(v any) members {
	asText, isText := v.(string)
	if !isText {
		items, _ := list(v)
		return newMembers(items)
	}
	s.mu.Lock()
	m, ok := s.members[asText]
	s.mu.Unlock()
	if ok {
		return m
	}
	var items []any
	for f := range strings.FieldsFuncSeq(asText, func(r rune) bool { return r < '0' || r > '9' }) {
		items = append(items, f)
	}
	m = newMembers(items)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.members == nil {
		s.members = map[string]members{}
	}
	s.members[strings.Clone(asText)] = m
	return m
}

func newMembers(items []any) members {
	m := members{ranks: make([]int, 0, len(items))}
	h := fnv.New32a()
	var b []byte
	for _, it := range items {
		n, ok := integer(it)
		if !ok || n < 0 || n >= maxRanks {
			return members{}
		}
		m.ranks = append(m.ranks, int(n))
		b = append(strconv.AppendInt(b[:0], n, 10), ',')
		_, _ = h.Write(b)
	}
	m.hash = h.Sum32()
	return m
}

func isJSON(data []byte) bool {
	trimmed := bytes.TrimLeft(data, " \t\r\n\ufeff")
	return len(trimmed) > 0 && trimmed[0] == '{'
}

// maxJSON bounds the size of a dump in JSON, which costs many times its size while it is read.
const maxJSON = 128 << 20

func decodeJSON(data []byte) (any, error) {
	if len(data) > maxJSON {
		return nil, fmt.Errorf("%d MiB are more than a recorder writes", len(data)>>20)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("at byte %d: %w", dec.InputOffset(), err)
	}
	return v, nil
}
