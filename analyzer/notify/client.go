// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Listed is an alert as Alertmanager lists it.
type Listed struct {
	Fingerprint  string            `json:"fingerprint"`
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL"`
	Status       ListedStatus      `json:"status"`
	Receivers    []Receiver        `json:"receivers"`
}

// Receiver is whom Alertmanager notifies of an alert.
type Receiver struct {
	Name string `json:"name"`
}

// ListedStatus is why Alertmanager notifies nobody of an alert.
type ListedStatus struct {
	SilencedBy []string `json:"silencedBy"` // Silences.
}

// Silenced reports whether somebody silenced the alert.
func (l *Listed) Silenced() bool { return len(l.Status.SilencedBy) > 0 }

// maxListBytes bounds the answer to a listing.
const maxListBytes = 64 << 20

// Client speaks to one Alertmanager.
type Client struct {
	URL     string
	HTTP    *http.Client
	Timeout time.Duration
}

// Post sends alerts. Nil means that Alertmanager has taken all of them.
func (c *Client) Post(ctx context.Context, alerts []Alert) error {
	body, err := json.Marshal(alerts)
	if err != nil {
		return fmt.Errorf("writing alerts: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint("alerts"), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("posting alerts: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return fmt.Errorf("posting alerts: %w", err)
	}
	defer resp.Body.Close()
	return finish(resp, nil)
}

// List gives the alerts that fire now, silenced and inhibited ones among them, and satisfy all matchers, such as
// job_id="7".
func (c *Client) List(ctx context.Context, receiver string, matchers ...string) ([]Listed, error) {
	q := url.Values{"active": {"true"}, "silenced": {"true"}, "inhibited": {"true"}, "unprocessed": {"true"}, "filter": matchers}
	if receiver != "" {
		q.Set("receiver", receiver)
	}
	var out []Listed
	if err := c.get(ctx, "alerts?"+q.Encode(), "listing alerts", &out); err != nil {
		return nil, err
	}
	return out, nil
}

// State is what Alertmanager says of itself.
type State struct {
	// Turn is its place among the members of its cluster, in the order of their names: each waits with a notification for
	// --cluster.peer-timeout times its place, so that it hears whether one before it has sent it. Alone it has the first, 0.
	Turn  int
	Since time.Time // When it was started.
}

// State asks Alertmanager for its state.
func (c *Client) State(ctx context.Context) (State, error) {
	var status struct {
		Uptime  time.Time `json:"uptime"`
		Cluster struct {
			Name  string `json:"name"`
			Peers []struct {
				Name string `json:"name"`
			} `json:"peers"`
		} `json:"cluster"`
	}
	if err := c.get(ctx, "status", "asking for the state", &status); err != nil {
		return State{}, err
	}
	out := State{Since: status.Uptime}
	for _, p := range status.Cluster.Peers {
		if p.Name < status.Cluster.Name {
			out.Turn++
		}
	}
	return out, nil
}

// get asks for something and reads the answer into out.
func (c *Client) get(ctx context.Context, path, doing string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.endpoint(path), nil)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer resp.Body.Close()
	return finish(resp, out)
}

func (c *Client) endpoint(path string) string {
	return strings.TrimRight(c.URL, "/") + "/api/v2/" + path
}

// finish checks the status of an answer and reads it, into out unless that is nil.
func finish(resp *http.Response, out any) error {
	defer func() { _, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16)) }() // So that the connection is used again.
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
		return fmt.Errorf("alertmanager answered %s: %s", resp.Status, bytes.TrimSpace(text))
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxListBytes)).Decode(out); err != nil {
		return fmt.Errorf("reading alertmanager's answer: %w", err)
	}
	return nil
}

// Matcher writes an equality matcher.
func Matcher(label, value string) string { return label + "=" + quote(value) }

var quoter = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func quote(s string) string { return `"` + quoter.Replace(s) + `"` }
