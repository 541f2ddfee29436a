// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// maxOutput bounds what is kept of what a command or a receiver says, bytes.
const maxOutput = 2 << 10

func cut(text string) string {
	text = strings.TrimSpace(text)
	if len(text) > maxOutput {
		text = text[:maxOutput] + " …"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// Command runs a program, without a shell. The program reads the request as JSON on its standard input, and finds what is safe to
// use in a shell in its environment: CULPRIT_ACTION, CULPRIT_INCIDENT, CULPRIT_CLASS, CULPRIT_CAUSE, CULPRIT_CONFIDENCE, CULPRIT_URL and
// CULPRIT_HOSTS, plain host names with a space between them.
type Command []string

// outputAfter is how long after its deadline the output of a killed program is waited for: what it started may hold it open.
const outputAfter = 5 * time.Second

// Do implements Doer.
func (c Command) Do(ctx context.Context, r *Request) (string, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, c[0], c[1:]...)
	cmd.Stdin = bytes.NewReader(body)
	cmd.WaitDelay = outputAfter
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LANG=C.UTF-8",
		"CULPRIT_ACTION=" + r.Action, "CULPRIT_INCIDENT=" + r.Incident, "CULPRIT_CLASS=" + string(r.Class), "CULPRIT_CAUSE=" + string(r.Cause),
		"CULPRIT_CONFIDENCE=" + strconv.FormatFloat(r.Confidence, 'f', 3, 64), "CULPRIT_HOSTS=" + strings.Join(r.Hosts, " "), "CULPRIT_URL=" + r.URL,
	}
	for _, name := range []string{"KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "SLURM_CONF"} { // Where the scheduler is.
		if value, set := os.LookupEnv(name); set {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	var out bounded
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("running %s: %w", c[0], err)
	}
	return out.String(), nil
}

// bounded keeps the beginning of what is written.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	_, _ = b.Buffer.Write(p[:min(len(p), max(0, maxOutput+1-b.Len()))])
	return len(p), nil
}

// Webhook posts the request as JSON. Any status of 200 to 299 is success.
type Webhook struct {
	URL    string
	HTTP   *http.Client
	Secret []byte // Signs the body; empty: it is not signed.
}

// Do implements Doer.
func (w *Webhook) Do(ctx context.Context, r *Request) (string, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("posting the action: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if len(w.Secret) > 0 {
		req.Header.Set(SignatureHeader, Sign(w.Secret, body, time.Now()))
	}
	resp, err := w.HTTP.Do(req)
	if err != nil {
		return "", fmt.Errorf("posting the action: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxOutput+1))
	if err != nil {
		return "", fmt.Errorf("reading the receiver's answer: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		return string(text), fmt.Errorf("the receiver answered %s", resp.Status)
	}
	return string(text), nil
}
