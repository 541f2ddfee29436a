// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package report shows a diagnosis: as text for people, as JSON for programs, and as a timeline for a browser.
package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/culprit-project/culprit/analyzer/offline/diagnosis"
	"github.com/culprit-project/culprit/analyzer/offline/load"
	"github.com/culprit-project/culprit/analyzer/offline/stackdump"
	"github.com/culprit-project/culprit/analyzer/rca"
)

// Style is how the text form looks.
type Style struct {
	Color   bool
	Explain bool
}

const (
	bold   = "1"
	red    = "1;31"
	green  = "1;32"
	yellow = "1;33"
	dim    = "2"
)

func (s Style) paint(code, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Lengths of the short form.
const (
	chainShown   = 12
	missingShown = 12
	listShown    = 8
)

// Text prints the verdict for people.
func Text(w io.Writer, r *diagnosis.Result, s Style) error {
	var b bytes.Buffer
	p := printer{&b, r, s}
	p.verdict()
	p.list("Compared with the healthy recording", r.Comparison, 0)
	p.chain()
	p.whatIf()
	p.ranks()
	p.stacks()
	p.list("Evidence", r.Verdict.Evidence, p.limit(listShown))
	p.list("Against it", r.Verdict.Contradictions, p.limit(listShown))
	if s.Explain {
		p.reasoning()
		p.candidates()
		p.methods()
	}
	p.missing()
	p.sources()
	p.next()
	_, err := w.Write(plain(b.Bytes(), s.Color))
	return err
}

type printer struct {
	w *bytes.Buffer
	r *diagnosis.Result
	s Style
}

func (p *printer) line(format string, args ...any) { fmt.Fprintf(p.w, format+"\n", oneLine(args)...) }

func (p *printer) title(t string) { p.line("\n%s", p.s.paint(bold, t)) }

// limit of a list: none with --explain.
func (p *printer) limit(n int) int {
	if p.s.Explain {
		return 0
	}
	return n
}

// cut says that the rest of a list is left out, once item i is beyond the bound of most (0: none), and whether it is.
func (p *printer) cut(indent string, i, most, of int, what string) bool {
	if most == 0 || i < most {
		return false
	}
	p.line("%s… and %d more%s (--explain shows all)", indent, of-i, what)
	return true
}

// list prints items under a title; most of 0 is all.
func (p *printer) list(title string, items []string, most int) {
	if len(items) == 0 {
		return
	}
	p.title(title)
	for i, it := range items {
		if p.cut("  ", i, most, len(items), "") {
			return
		}
		p.line("  %s", it)
	}
}

func (p *printer) verdict() {
	v := p.r.Verdict
	code := red
	switch {
	case fine(v):
		code = green
	case undecided(v), v.Class == rca.Imbalance, v.Class == rca.GlobalSlow:
		code = yellow
	}
	p.line("%s", p.s.paint(code, v.Summary))
	class := string(v.Class)
	if v.Code != "" {
		class += " (" + v.Code + ")"
	}
	facts := []string{"class " + class, "cause " + string(v.Cause), fmt.Sprintf("confidence %.2f", v.Confidence)}
	if v.Comm != "" {
		facts = append(facts, "group "+v.Comm)
	}
	if v.Op != "" {
		facts = append(facts, "operation "+v.Op)
	}
	if v.Slowdown > 0 {
		facts = append(facts, fmt.Sprintf("slowdown %.2fx", v.Slowdown))
	}
	p.line("%s", strings.Join(facts, ", "))
	for _, c := range v.Culprits {
		p.line("  %s%s", p.s.paint(code, culpritName(c)), prefixed(": ", c.Why))
	}
	for i, s := range Suspects(p.r) {
		if most := p.limit(listShown); most > 0 && i == most {
			p.line("  … and more (--explain shows all)")
			break
		}
		p.line("  %s", p.s.paint(yellow, s))
	}
}

// fine: nothing is wrong.
func fine(v rca.Verdict) bool { return v.Class == rca.Healthy || v.Class == rca.Benign }

// undecided: the evidence does not carry a verdict.
func undecided(v rca.Verdict) bool { return v.Class == rca.Unknown || v.Class == "" }

func culpritName(c rca.Culprit) string {
	var parts []string
	if c.Rank >= 0 {
		parts = append(parts, fmt.Sprintf("rank %d", c.Rank))
	}
	if c.Group != "" {
		parts = append(parts, c.Group)
	}
	if c.Host != "" {
		parts = append(parts, "on "+c.Host)
	}
	if c.GPU != "" {
		parts = append(parts, "GPU "+c.GPU)
	}
	if c.NIC != "" {
		parts = append(parts, "NIC "+c.NIC)
	}
	if c.Channel >= 0 {
		parts = append(parts, fmt.Sprintf("channel %d", c.Channel))
	}
	if c.PID > 0 {
		parts = append(parts, fmt.Sprintf("pid %d", c.PID))
	}
	return strings.Join(parts, " ")
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func (p *printer) chain() {
	links := p.r.Verdict.Chain
	if len(links) == 0 {
		return
	}
	p.title("Who waits for whom")
	for i, l := range links {
		if p.cut("  ", i, p.limit(chainShown), len(links), "") {
			return
		}
		where := strings.Join(slices.DeleteFunc([]string{l.Op, l.Comm}, func(s string) bool { return s == "" }), " in ")
		to := fmt.Sprintf("rank %d", l.To)
		switch {
		case l.To == l.From:
			to = "nobody"
		case l.To < 0:
			to = "an unseen rank"
		}
		sure := ""
		if !l.Sure {
			sure = p.s.paint(dim, " (inferred)")
		}
		p.line("  rank %d waits for %s: %s%s%s", l.From, to, l.Reason, bracketed(where), sure)
	}
}

func bracketed(s string) string {
	if s == "" {
		return ""
	}
	return " [" + s + "]"
}

func (p *printer) ranks() {
	rows := rankRows(p.r.Evidence, p.r.Verdict)
	for i := range rows {
		rows[i].host = cmp.Or(rows[i].host, p.r.Host(rows[i].rank))
	}
	if len(rows) == 0 {
		return
	}
	p.title("Ranks")
	if !p.s.Explain {
		rows = joinDull(rows)
	}
	shown := rows
	if most := p.limit(rankRowsShown); most > 0 && len(rows) > most {
		shown = rows[:most]
	}
	var table bytes.Buffer
	tw := tabwriter.NewWriter(&table, 0, 0, 0, ' ', 0)
	columns := shownColumns(shown)
	for _, c := range columns {
		fmt.Fprintf(tw, "  %s\t", c.title)
	}
	fmt.Fprintln(tw)
	for i := range shown {
		for _, c := range columns {
			fmt.Fprintf(tw, "  %s\t", Plain(orDash(c.value(&shown[i]))))
		}
		fmt.Fprintln(tw)
	}
	_ = tw.Flush()
	for l := range bytes.Lines(table.Bytes()) {
		p.line("%s", bytes.TrimRight(l, " \n"))
	}
	left := 0
	for _, r := range rows[len(shown):] {
		left += 1 + len(r.alike)
	}
	if left > 0 {
		p.line("  … and %d more (--explain shows all)", left)
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// stacks prints the groups of ranks that stand at the same place (M11).
func (p *printer) stacks() {
	clusters := stackdump.Clusters(p.r.Evidence.Ranks)
	if len(clusters) == 0 {
		return
	}
	p.title("Python stacks")
	for i, c := range clusters {
		if p.cut("  ", i, p.limit(listShown), len(clusters), " groups") {
			return
		}
		p.line("  %s", cmp.Or(strings.Join(c.Names, ", "), rankList(c.Ranks)))
		stack := c.Stack
		const inner = 6
		if !p.s.Explain && len(stack) > inner {
			stack = stack[len(stack)-inner:]
		}
		for _, f := range slices.Backward(stack) {
			p.line("      %s", f)
		}
	}
}

// reasoning says by which row of the engine's tables the verdict is said, and what was mended in the records before.
func (p *printer) reasoning() {
	v := &p.r.Verdict
	var items []string
	if v.Row != "" {
		items = append(items, "said by the row "+v.Row)
	}
	for _, r := range v.Repairs {
		left := ""
		if r.Left > 0 {
			left = fmt.Sprintf("; %d could not be", r.Left)
		}
		items = append(items, fmt.Sprintf("%s: %d pieces of work mended%s", r.Step, r.Changed, left))
	}
	if len(items) > 0 {
		p.list("Reasoning", items, 0)
	}
}

func (p *printer) candidates() {
	var items []string
	for _, h := range p.r.Verdict.Hypotheses {
		who := cmp.Or(rankList(h.Ranks), h.Group)
		effect := fmt.Sprintf("%d ranks wait for it", h.Explains)
		if h.Saves > 0 {
			effect = fmt.Sprintf("an iteration would be %.0f%% shorter without it", 100*h.Saves)
		}
		mark := " "
		if h.Chosen {
			mark = "*"
		}
		items = append(items, fmt.Sprintf("%s %s: %s, %s%s, weight %.2f, %s%s", mark, who, h.Class, h.Cause, prefixed(", row ", h.Row), h.Weight, effect, prefixed(". ", h.Reason)))
	}
	if len(items) > 0 {
		p.list("Hypotheses (* the verdict rests on it)", items, 0)
		return
	}
	for _, c := range p.r.Verdict.RuledOut {
		name := c.Group
		if c.Rank >= 0 {
			name = strings.TrimSpace(fmt.Sprintf("rank %d %s", c.Rank, c.Group))
		}
		items = append(items, name+": "+c.Reason)
	}
	p.list("Considered and not accused", items, 0)
}

func (p *printer) methods() {
	var items []string
	for _, m := range p.r.Votes() {
		items = append(items, fmt.Sprintf("%s: %s%s%s", m.Method, m.Class, prefixed(" ", rankList(m.Ranks)), prefixed(" — ", m.Note)))
	}
	p.list("What each paper's method alone says (it decides nothing)", items, 0)
}

// listParts is how many numbers or stretches of numbers a list of ranks shows before it is cut.
const listParts = 12

func rankList(ranks []int) string {
	switch len(ranks) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("rank %d", ranks[0])
	}
	var parts []string
	for i := 0; i < len(ranks); {
		j := i
		for j+1 < len(ranks) && ranks[j+1] == ranks[j]+1 {
			j++
		}
		switch {
		case j == i:
			parts = append(parts, fmt.Sprint(ranks[i]))
		case j == i+1:
			parts = append(parts, fmt.Sprint(ranks[i]), fmt.Sprint(ranks[j]))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", ranks[i], ranks[j]))
		}
		i = j + 1
	}
	if n := len(parts); n > listParts {
		return fmt.Sprintf("ranks %s, …, %s (%d)", strings.Join(parts[:listParts/2], ", "), parts[n-1], len(ranks))
	}
	return "ranks " + strings.Join(parts, ", ")
}

// notSeen gives what was missing, ranks that lack for the same reason together.
func notSeen(r *diagnosis.Result) []string {
	byWhy := map[string][]int{}
	single := map[string]bool{}
	var order, out []string
	for _, m := range r.Evidence.Missing {
		if m.What != "rank" || len(m.Ranks) != 1 || m.Name != fmt.Sprint(m.Ranks[0]) {
			continue
		}
		if byWhy[m.Why] == nil {
			order = append(order, m.Why)
		}
		byWhy[m.Why] = append(byWhy[m.Why], m.Ranks[0])
		single[fmt.Sprintf("%s %s: %s", m.What, m.Name, m.Why)] = true
	}
	for _, why := range order {
		slices.Sort(byWhy[why])
		out = append(out, rankList(slices.Compact(byWhy[why]))+": "+why)
	}
	for _, m := range r.Verdict.Missing {
		if !single[m] {
			out = append(out, m)
		}
	}
	return out
}

func (p *printer) missing() {
	items := notSeen(p.r)
	var strange []string
	for _, f := range p.r.Files {
		switch {
		case f.Kind == "" && strings.HasPrefix(f.Error, load.NotRecognised) && !p.s.Explain:
			strange = append(strange, f.Path)
		case f.Error != "" || f.Warning != "":
			items = append(items, f.Line())
		}
	}
	const named = 3
	switch n := len(strange); {
	case n > named:
		items = append(items, fmt.Sprintf("%d files are not recognised: %s, … (--explain shows all)", n, strings.Join(strange[:named], ", ")))
	case n > 0:
		items = append(items, "not recognised: "+strings.Join(strange, ", "))
	}
	p.list("Not seen", items, p.limit(missingShown))
}

func (p *printer) sources() {
	p.title("Sources")
	for _, s := range p.r.Sources {
		unit := "files"
		if s.Files == 1 {
			unit = "file"
		}
		says := ""
		if len(p.r.Sources) > 1 {
			says = ": " + s.Verdict.Summary
		}
		p.line("  %s, %d %s%s", s.Name, s.Files, unit, says)
		for i, n := range s.Notes {
			if p.cut("    ", i, p.limit(listShown), len(s.Notes), "") {
				break
			}
			p.line("    %s", n)
		}
	}
	p.list("Where they disagree", p.r.Disagreements, 0)
}

func (p *printer) next() {
	p.list("What to do next", nextSteps(p.r), 0)
}
