// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package flightrecorder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

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

// ranks reads a member list: a list of numbers, or its text "[0, 1, 2]".
func ranks(v any) []int {
	items, ok := list(v)
	if !ok {
		for _, f := range strings.FieldsFunc(text(v), func(r rune) bool { return r < '0' || r > '9' }) {
			items = append(items, f)
		}
	}
	var out []int
	for _, it := range items {
		n, ok := integer(it)
		if !ok || n < 0 || n >= maxRanks {
			return nil
		}
		out = append(out, int(n))
	}
	return out
}

func isJSON(data []byte) bool {
	trimmed := bytes.TrimLeft(data, " \t\r\n\ufeff")
	return len(trimmed) > 0 && trimmed[0] == '{'
}

func decodeJSON(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("at byte %d: %w", dec.InputOffset(), err)
	}
	return v, nil
}
