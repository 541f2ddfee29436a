// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package forest

import "testing"

func TestReadRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":     `{`,
		"version":     `{"version":9,"features":["a"],"trees":[[{"f":-1}]]}`,
		"no features": `{"version":1,"trees":[[{"f":-1}]]}`,
		"no trees":    `{"version":1,"features":["a"]}`,
		"empty tree":  `{"version":1,"features":["a"],"trees":[[]]}`,
		"endless":     `{"version":1,"features":["a"],"trees":[[{"f":0,"l":0,"r":0}]]}`,
		"feature":     `{"version":1,"features":["a"],"trees":[[{"f":3,"l":1,"r":2},{"f":-1},{"f":-1}]]}`,
		"child":       `{"version":1,"features":["a"],"trees":[[{"f":0,"l":1,"r":7},{"f":-1}]]}`,
		"share":       `{"version":1,"features":["a"],"trees":[[{"f":-1,"p":2}]]}`,
	} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"version":1,"features":["a"],"trees":[[{"f":0,"t":1,"l":1,"r":2},{"f":-1,"p":1},{"f":-1}]]}`)
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse([]byte(text))
		if err != nil {
			return
		}
		if p := m.Probability(make([]float64, len(m.Features))); !(p >= 0 && p <= 1) {
			t.Errorf("probability %g", p)
		}
	})
}
