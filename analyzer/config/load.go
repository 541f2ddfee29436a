// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	promconfig "github.com/prometheus/common/config"
	"go.yaml.in/yaml/v2"

	"github.com/culprit-project/culprit/analyzer/rca/topology"
)

// Load reads and checks a configuration file. No file name gives the defaults. Unknown fields are errors.
func Load(file string) (*Config, error) {
	if file == "" {
		c := Default()
		return c, c.Check()
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading configuration: %w", err)
	}
	dir := filepath.Dir(file)
	c, err := Parse(text)
	if err := errors.Join(err, c.Analysis.load(dir)); err != nil {
		return nil, inFile(file, err)
	}
	c.Prometheus.HTTPConfig.SetDirectory(dir)
	for i := range c.Prometheus.Scrapers {
		c.Prometheus.Scrapers[i].HTTPConfig.SetDirectory(dir)
	}
	c.Alertmanager.HTTPConfig.SetDirectory(dir)
	c.Exporters.HTTPConfig.SetDirectory(dir)
	c.Stacks.HTTPConfig.SetDirectory(dir)
	for i := range c.Actions.Rules {
		w := &c.Actions.Rules[i].Webhook
		w.HTTPConfig.SetDirectory(dir)
		w.SecretFile = promconfig.JoinDir(dir, w.SecretFile)
	}
	return c, nil
}

// inFile puts the name of a file before each of joined errors.
func inFile(file string, err error) error {
	if list, joined := err.(interface{ Unwrap() []error }); joined {
		var out []error
		for _, e := range list.Unwrap() {
			out = append(out, inFile(file, e))
		}
		return errors.Join(out...)
	}
	return fmt.Errorf("configuration %s: %w", file, err)
}

// load reads the files that the analysis needs; their names are relative to the configuration's directory.
func (a *Analysis) load(dir string) error {
	at := func(name string) string {
		if name == "" || filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(dir, name)
	}
	var errs problems
	var err error
	t := a.Topology
	if a.topology, err = topology.Load(func(name string) (io.ReadCloser, error) { return os.Open(name) }, topology.Files{Slurm: at(t.Slurm), NCCL: at(t.NCCL), File: at(t.File)}); err != nil {
		errs.add("analysis.topology: %w", err)
	}
	return errors.Join(errs...)
}

// Parse reads and checks a configuration. With an error it gives what could be read, and it tells every error at once: whoever mends a file
// does not want to learn of them one by one.
func Parse(text []byte) (*Config, error) {
	c := unread()
	err := yaml.UnmarshalStrict(text, c)
	if mistyped := (*yaml.TypeError)(nil); errors.As(err, &mistyped) {
		err = each(mistyped, "")
	} else if err != nil {
		err = decodeSections(text, c) // A value of a type of ours ends the reading of all that follows it.
	}
	c.derive()
	return c, errors.Join(err, c.Check())
}

// decodeSections reads each section of a file by itself, so that an error in one hides none in another.
func decodeSections(text []byte, c *Config) error {
	var sections yaml.MapSlice
	if err := yaml.Unmarshal(text, &sections); err != nil {
		return fmt.Errorf("reading YAML: %w", err)
	}
	var errs []error
	for _, s := range sections {
		part, err := only(text, s)
		if err == nil {
			err = yaml.UnmarshalStrict(part, c)
		}
		if mistyped := (*yaml.TypeError)(nil); errors.As(err, &mistyped) {
			errs = append(errs, each(mistyped, fmt.Sprintf("%v: ", s.Key)))
		} else if err != nil {
			errs = append(errs, fmt.Errorf("%v: %w", s.Key, err))
		}
	}
	return errors.Join(errs...)
}

// each gives every error of a file's types by itself, in words for who wrote the file.
func each(err *yaml.TypeError, section string) error {
	words := strings.NewReplacer("cannot unmarshal !!str ", "cannot read ", "cannot unmarshal !!seq", "cannot read a list", "cannot unmarshal !!map", "cannot read a map",
		"cannot unmarshal !!", "cannot read the ", " into int", " as a whole number", " into float64", " as a number", " into bool", " as true or false", " into string", " as text")
	var out []error
	for _, text := range err.Errors {
		out = append(out, errors.New(section+words.Replace(text)))
	}
	return errors.Join(out...)
}

// only leaves a section of a file on the lines where it stands, so that errors tell the line of the file. A section that does not begin on
// a line of its own, or needs another one's anchor, is written anew.
func only(text []byte, section yaml.MapItem) ([]byte, error) {
	var part []string
	own := false
	for line := range strings.Lines(string(text)) {
		if strings.TrimLeft(line, " \t#-\r\n") == line {
			key, _, _ := strings.Cut(line, ":")
			own = strings.Trim(key, `"' `) == fmt.Sprint(section.Key)
		}
		if !own {
			line = "\n"
		}
		part = append(part, line)
	}
	alone := []byte(strings.Join(part, ""))
	var read yaml.MapSlice
	if err := yaml.Unmarshal(alone, &read); err == nil && len(read) == 1 && read[0].Key == section.Key {
		return alone, nil
	}
	return yaml.Marshal(yaml.MapSlice{section})
}
