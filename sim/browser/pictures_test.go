// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build pictures

package browser

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/culprit-project/culprit/analyzer/api"
)

// onPaper is a page as a sheet of A4 has it.
var onPaper = []chromedp.Action{emulation.SetDeviceMetricsOverride(794, 1123, 1, false), emulation.SetEmulatedMedia().WithMedia("print")}

// tallest is where pictures are cut off, in pixels of the page.
const tallest = 2400

// TestPictures takes pictures of the pages of a service that runs, at $ANALYZER, into $PICTURES.
func TestPictures(t *testing.T) {
	service, dir := os.Getenv("ANALYZER"), os.Getenv("PICTURES")
	if service == "" || dir == "" {
		t.Fatal("ANALYZER or PICTURES is not set: run go run ./tools/ci run pictures")
	}
	resp, err := http.Get(service + "/api/v1/incidents")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var list api.IncidentList
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil || len(list.Incidents) == 0 {
		t.Fatalf("no incident: %v", err)
	}
	inc := &list.Incidents[0]
	s := &site{browser: newBrowser(t)}
	wanted := map[string]string{"index": "/", "incident": "/incidents/" + inc.ID, "job": "/job?id=" + inc.JobID}
	ways := map[string][]chromedp.Action{"print": onPaper}
	for look, actions := range looks {
		ways[look] = actions
	}
	for file, path := range wanted {
		for look, actions := range ways {
			t.Run(file+"/"+look, func(t *testing.T) { shoot(t, s, service+path, filepath.Join(dir, file+"-"+look+".webp"), actions) })
		}
	}
}

func shoot(t *testing.T, s *site, url, file string, actions []chromedp.Action) {
	t.Helper()
	b := s.tab(t, actions...)
	var picture []byte
	b.run(chromedp.Navigate(url), chromedp.WaitReady("footer"), page.BringToFront(), chromedp.ActionFunc(func(ctx context.Context) error {
		_, _, _, _, _, content, err := page.GetLayoutMetrics().Do(ctx)
		if err != nil {
			return err
		}
		picture, err = page.CaptureScreenshot().WithCaptureBeyondViewport(true).WithFormat(page.CaptureScreenshotFormatWebp).WithQuality(70).
			WithClip(&page.Viewport{Width: content.Width, Height: min(content.Height, tallest), Scale: 1}).Do(ctx)
		return err
	}))
	b.clean()
	if err := os.WriteFile(file, picture, 0o644); err != nil {
		t.Fatal(err)
	}
}
