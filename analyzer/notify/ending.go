// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"context"
	"slices"
	"time"
)

// Times of ends.
const (
	// keepResolved is how long the end of an alert is offered to a peer that does not take it.
	keepResolved = 15 * time.Minute
	// endsBefore is by how much an end is dated early. An end is firing again for Alertmanager when a clock is set back to before it, and
	// somebody would be called.
	endsBefore = 2 * time.Minute
	// lookHolds is for how long it is believed of a peer that no other analyzer told it of an alert.
	lookHolds = 10 * time.Second
	// While an alert that is over is left to another analyzer, peers are asked for it every third of the time between two turns, within these
	// bounds: that one may die when it has told some of them of the end.
	oftenLook, seldomLook = time.Second, 5 * time.Second
)

// leftUntil is until when an alert that is over is left to another analyzer: it has told of it again by then, or does not any more.
func (h *held) leftUntil(resend time.Duration) time.Time {
	if !h.over || h.shared.IsZero() {
		return time.Time{}
	}
	return h.shared.Add(resend + resend/2)
}

// mayEnd reports whether all peers may be told that an alert is over.
func (s *Sender) mayEnd(h *held, now time.Time) bool {
	if !h.over || !h.ending.IsZero() || now.Sub(h.endedAt) >= 2*s.resend {
		return true
	}
	return !slices.ContainsFunc(s.peers, func(p *peer) bool { return !quietAt(p.told[h.fingerprint].quiet, now) })
}

// untilEnd gives how long a peer is still not to be told of an end, nor asked what it has of it.
func (s *Sender) untilEnd(p *peer, h *held, now time.Time) time.Duration {
	if !h.ending.IsZero() {
		return max(0, s.endAt(p, h).Sub(now))
	}
	wait := p.told[h.fingerprint].looked.Add(s.lookEvery()).Sub(now)
	if !h.over || wait <= 0 || !now.Before(h.leftUntil(s.resend)) && s.mayEnd(h, now) {
		return 0
	}
	if late := h.endedAt.Add(2 * s.resend).Sub(now); late > 0 { // Then nobody is waited for any more.
		wait = min(wait, late)
	}
	return wait
}

// endAt gives when a peer may be told of an end that others are being told of: after those whose turn to notify comes later, and by as much
// later as they notify. One that does not take it is waited for, for one resend.
func (s *Sender) endAt(p *peer, h *held) time.Time {
	at := h.ending
	for _, o := range s.peers {
		if o.state.Turn <= p.state.Turn {
			continue
		}
		t := o.told[h.fingerprint]
		if t.serial != h.serial {
			return h.ending.Add(s.resend)
		}
		if next := t.at.Add(time.Duration(o.state.Turn-p.state.Turn) * s.wait); next.After(at) {
			at = next
		}
	}
	return at
}

func quietAt(quiet, now time.Time) bool { return !quiet.IsZero() && now.Sub(quiet) < lookHolds }

// mayTell takes in what the peer has of an alert, and reports whether it is to be told of it now.
func (s *Sender) mayTell(p *peer, h *held, there *listing, seen bool, now time.Time) bool {
	if !h.ending.IsZero() {
		return false // Its turn comes.
	}
	t := p.told[h.fingerprint]
	if l, has := there.alerts[h.fingerprint]; has && !l.EndsAt.Equal(t.endsAt) && !l.EndsAt.Equal(t.others) {
		t.others, h.shared = l.EndsAt, now
	}
	left := now.Before(h.leftUntil(s.resend))
	t.quiet, t.looked = time.Time{}, time.Time{}
	if h.over {
		t.looked = now
	}
	if h.over && seen && p.hasEnded(&t, there, h, now) { // It tells the others, too, unless it dies.
		t.serial, t.at, h.ending = h.serial, now, now
		p.told[h.fingerprint] = t
		s.pokeOthers(p)
		return false
	}
	if !left && h.over && seen {
		t.quiet = now
	}
	p.told[h.fingerprint] = t
	if left || !s.mayEnd(h, now) {
		return false
	}
	if h.over {
		h.ending = now
		s.pokeOthers(p)
		return !now.Before(s.endAt(p, h))
	}
	return true
}

// hasEnded reports whether another analyzer has told the peer of an end: it does not have an alert of which it was told that it lasts, and
// has not been started anew, as which it has none.
func (p *peer) hasEnded(t *telling, there *listing, h *held, now time.Time) bool {
	_, has := there.alerts[h.fingerprint]
	return !has && t.serial != 0 && now.Before(t.endsAt) && !t.since.IsZero() && t.since.Equal(there.state.Since)
}

func (s *Sender) lookEvery() time.Duration { return min(max(s.wait/3, oftenLook), seldomLook) }

// listing is what a peer has.
type listing struct {
	alerts map[string]Listed // Verdicts, by fingerprint.
	state  State             // Zero: it did not say.
}

// look asks a peer what it has, for a moment only. What it has not said is empty.
func (p *peer) look(ctx context.Context) (listing, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	list, err := p.client.List(ctx, "", `culprit=~"verdict|suspect"`)
	if err != nil {
		return listing{}, err
	}
	out := listing{alerts: make(map[string]Listed, len(list))}
	for _, l := range list {
		out.alerts[l.Fingerprint] = l
	}
	if out.state, err = p.client.State(ctx); err != nil {
		out.state = State{} // Nothing that is asked for the sake of this only may hold up an alert.
	}
	return out, nil
}
