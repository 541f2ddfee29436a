// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/culprit-project/culprit/sim/pace"
)

// budget is how long after it is asked for a page can be used, on the reference machine of package pace.
const budget = time.Second

// BenchmarkUsable opens the largest pages: from when an address is entered until the page is laid out and answers its reader. It is held to
// the budget, stretched to this machine.
func BenchmarkUsable(b *testing.B) {
	s := newSite(b)
	limit := pace.Stretch(budget)
	for _, name := range []string{"incident-8", "incident-512", "incident-10240", "incident-102400", "job-10240"} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				t := s.tab(b)
				began := time.Now()
				// A summary that opens shows that the page is laid out and that events are handled.
				t.run(chromedp.Navigate(s.url+pages[name]), chromedp.WaitReady("footer"), chromedp.Evaluate(`document.body.getBoundingClientRect().height`, nil),
					chromedp.Evaluate(`new Promise(done => { const d = document.querySelector('details'); if (!d) { done(0); return; } d.addEventListener('toggle', () => done(1), {once: true}); d.open = !d.open; })`, nil, awaited))
				took = append(took, time.Since(began))
				t.end()
			}
			slices.Sort(took)
			median := took[len(took)/2]
			b.ReportMetric(float64(median.Milliseconds()), "ms/median")
			b.ReportMetric(float64(median)/float64(limit), "of-the-budget")
			if median > limit {
				b.Errorf("%s can be used after %s; the budget is %s on this machine", name, median.Round(time.Millisecond), limit.Round(time.Millisecond))
			}
		})
	}
}
