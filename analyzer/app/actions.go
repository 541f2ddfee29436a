// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	promconfig "github.com/prometheus/common/config"

	"github.com/culprit-project/culprit/analyzer/action"
	"github.com/culprit-project/culprit/analyzer/config"
	"github.com/culprit-project/culprit/analyzer/fetch"
)

// maxReceipt bounds what the receiver of an action answers, bytes.
const maxReceipt = 1 << 20

// actions are the rules of a configuration with their limits.
type actions struct {
	rules  []action.Rule
	limits action.Limits
}

// errNoStorage: without a folder nobody knows after a restart what has been done.
var errNoStorage = errors.New("actions.rules: dry_run: false needs --storage.path, which keeps the record of what ran")

// needStorage refuses rules that run where nothing is kept.
func needStorage(cfg *config.Actions, storage string) error {
	if storage == "" && slices.ContainsFunc(cfg.Rules, func(r config.Action) bool { return !r.DryRun }) {
		return errNoStorage
	}
	return nil
}

func (a *App) buildActions(cfg *config.Actions, agent promconfig.HTTPClientOption) (actions, error) {
	if err := needStorage(cfg, a.storage); err != nil {
		return actions{}, err
	}
	out := actions{limits: action.Limits{MaxHosts: cfg.MaxHosts, Window: time.Duration(cfg.Window), Interval: time.Duration(cfg.Interval)}}
	for i := range cfg.Rules {
		c := &cfg.Rules[i]
		r := action.Rule{
			Name: c.Name, Classes: c.Classes, Causes: c.Causes, MinConfidence: c.MinConfidence, After: time.Duration(c.After), Hosts: c.HostPattern(), DryRun: c.DryRun,
			Timeout: time.Duration(c.Timeout), Do: action.Command(c.Command),
		}
		if c.Webhook.URL != "" {
			client, err := fetch.Client(c.Webhook.HTTPConfig, "actions", maxReceipt, a.budget, agent)
			if err != nil {
				return out, err
			}
			secret, err := readSecret(c.Webhook.SecretFile)
			if err != nil {
				return out, fmt.Errorf("actions.rules[%d].webhook.secret_file: %w", i, err)
			}
			r.Do = &action.Webhook{URL: c.Webhook.URL, HTTP: client, Secret: secret}
		}
		out.rules = append(out.rules, r)
	}
	return out, nil
}

// leastSecret is below how many bytes a secret can be guessed.
const leastSecret = 16

// readSecret reads what a webhook is signed with, without the end of its line; nil where no file is named.
func readSecret(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if text = bytes.TrimRight(text, "\r\n"); len(text) < leastSecret {
		return nil, fmt.Errorf("%s has %d bytes, want %d or more", file, len(text), leastSecret)
	}
	return text, nil
}

// openActionLog opens the audit log, which is kept in memory where there is no folder.
func openActionLog(storage string) (*action.Log, error) {
	if storage == "" {
		return action.OpenLog("")
	}
	return action.OpenLog(filepath.Join(storage, "actions.jsonl"))
}
