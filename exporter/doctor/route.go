// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v2"
)

// config is what is read of Alertmanager's configuration.
type config struct {
	Route     *route           `yaml:"route"`
	Receivers []map[string]any `yaml:"receivers"`
}

type route struct {
	Receiver string            `yaml:"receiver"`
	Matchers []string          `yaml:"matchers"`
	Match    map[string]string `yaml:"match"`
	MatchRE  map[string]string `yaml:"match_re"`
	Continue bool              `yaml:"continue"`
	Routes   []*route          `yaml:"routes"`

	tests []matcher
}

// matcher is a condition on one label.
type matcher struct {
	label string
	value *regexp.Regexp
	not   bool
}

func parseConfig(text string) (*config, error) {
	var c config
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		return nil, err
	}
	if c.Route == nil {
		return nil, fmt.Errorf("it has no route")
	}
	return &c, c.Route.compile("")
}

// written is label, operator and value of a matcher; quotes may surround the value, and in newer releases the label.
var written = regexp.MustCompile(`^\s*"?([^"=!~\s]+)"?\s*(=~|!~|!=|=)\s*"?(.*?)"?\s*$`)

// compile prepares a route and those below, which inherit the receiver.
func (r *route) compile(receiver string) error {
	if r.Receiver == "" {
		r.Receiver = receiver
	}
	add := func(label, pattern string, not bool) error {
		value, err := regexp.Compile("^(?:" + pattern + ")$")
		r.tests = append(r.tests, matcher{label, value, not})
		return err
	}
	for label, value := range r.Match {
		if err := add(label, regexp.QuoteMeta(value), false); err != nil {
			return err
		}
	}
	for label, pattern := range r.MatchRE {
		if err := add(label, pattern, false); err != nil {
			return err
		}
	}
	for _, line := range r.Matchers {
		for _, one := range conjuncts(line) {
			m := written.FindStringSubmatch(one)
			if m == nil {
				return fmt.Errorf("matcher %q is not understood", one)
			}
			pattern := m[3]
			if !strings.HasSuffix(m[2], "~") {
				pattern = regexp.QuoteMeta(pattern)
			}
			if err := add(m[1], pattern, strings.HasPrefix(m[2], "!")); err != nil {
				return err
			}
		}
	}
	for _, below := range r.Routes {
		if err := below.compile(r.Receiver); err != nil {
			return err
		}
	}
	return nil
}

// conjuncts splits {a="1",b="2"}; a comma inside of quotes belongs to the value.
func conjuncts(line string) []string {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "{") {
		return []string{line}
	}
	quoted := false
	return strings.FieldsFunc(strings.TrimSuffix(strings.TrimPrefix(line, "{"), "}"), func(c rune) bool {
		if c == '"' {
			quoted = !quoted
		}
		return c == ',' && !quoted
	})
}

func (r *route) matches(labels map[string]string) bool {
	return !slices.ContainsFunc(r.tests, func(m matcher) bool { return m.value.MatchString(labels[m.label]) == m.not })
}

// receivers are those that an alert is sent to: of the deepest routes that match, the first, and those after one that continues.
func (r *route) receivers(labels map[string]string) []string {
	if !r.matches(labels) {
		return nil
	}
	var out []string
	for _, below := range r.Routes {
		found := below.receivers(labels)
		out = append(out, found...)
		if len(found) > 0 && !below.Continue {
			break
		}
	}
	if len(out) == 0 {
		return []string{r.Receiver}
	}
	return out
}

// kinds are the ways in which a receiver notifies, such as webhook_configs.
func (c *config) kinds(name string) []string {
	var out []string
	for _, r := range c.Receivers {
		if r["name"] != name {
			continue
		}
		for key, value := range r {
			if list, is := value.([]any); is && len(list) > 0 {
				out = append(out, key)
			}
		}
	}
	slices.Sort(out)
	return out
}
