// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/culprit-project/culprit/sim/stack"
)

// disturber does something to one service after another, each kind by itself so that of a pair one is always left alone.
type disturber struct {
	t    *testing.T
	s    *stack.Stack
	rng  *rand.Rand // Of the loops, under mu.
	mu   sync.Mutex
	done map[string]int // How often each was done, by "kind service".
	log  []disturbed

	calm sync.RWMutex // Held for writing while nothing may be disturbed.
}

// disturbed is what was done to one service.
type disturbed struct {
	from, to time.Time
	what     string
}

// disturbance does something for a while, and undoes it.
type disturbance struct {
	name string
	do   func(ctx context.Context, v stack.Service, long time.Duration) error
}

var disturbances = []disturbance{
	{"killed", func(ctx context.Context, v stack.Service, long time.Duration) error {
		if err := v.Kill(); err != nil {
			return err
		}
		sleep(ctx, long/2)
		return v.Restart(context.WithoutCancel(ctx))
	}},
	{"stopped", func(ctx context.Context, v stack.Service, long time.Duration) error {
		if err := v.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		sleep(ctx, long)
		return v.Signal(syscall.SIGCONT)
	}},
	{"delayed", func(ctx context.Context, v stack.Service, long time.Duration) error {
		for end := time.Now().Add(long); time.Now().Before(end) && ctx.Err() == nil; {
			if err := v.Signal(syscall.SIGSTOP); err != nil {
				return err
			}
			time.Sleep(150 * time.Millisecond)
			if err := v.Signal(syscall.SIGCONT); err != nil {
				return err
			}
			time.Sleep(50 * time.Millisecond)
		}
		return nil
	}},
	{"disk filled", func(ctx context.Context, v stack.Service, long time.Duration) error {
		name := filepath.Join(v.Data, "filler")
		if err := fill(name); err != nil {
			return err
		}
		sleep(ctx, 2*long)
		if err := os.Remove(name); err != nil {
			return err
		}
		// Prometheus may end where it cannot write; whoever runs it starts it again.
		return v.Restart(context.WithoutCancel(ctx))
	}},
}

// fill writes until the disk is full.
func fill(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	for len(block) > 0 {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/4] // To the last bytes.
		} else if err != nil {
			return err
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// between draws a length.
func (d *disturber) between(least, most time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return least + time.Duration(d.rng.Int64N(int64(most-least)))
}

func (d *disturber) draw(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n)
}

func (d *disturber) note(kind, what, detail string, from time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done[kind+" "+what]++
	d.log = append(d.log, disturbed{from, time.Now(), kind + " " + what + " " + detail})
}

// around tells what was done between two times, for whoever looks for the reason of what happened then.
func (d *disturber) around(from, to time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.log {
		if x.to.After(from) && x.from.Before(to) {
			d.t.Logf("    %7.1f s to %.1f s: %s", x.from.Sub(from).Seconds(), x.to.Sub(from).Seconds(), x.what)
		}
	}
}

// disturb disturbs services of one kind until ctx ends, about once in so long.
func (d *disturber) disturb(ctx context.Context, kind string, every time.Duration) {
	var services []stack.Service
	for _, v := range d.s.Services() {
		if v.Kind == kind {
			services = append(services, v)
		}
	}
	for {
		sleep(ctx, d.between(every/4, 2*every))
		if ctx.Err() != nil {
			return
		}
		d.calm.RLock()
		from := time.Now()
		v, what := services[d.draw(len(services))], disturbances[d.draw(len(disturbances))]
		if err := what.do(ctx, v, d.between(500*time.Millisecond, 8*time.Second)); err != nil {
			d.t.Errorf("%s, %s: %v", v.Name, what.name, err)
		}
		d.note(kind, what.name, v.Name, from)
		d.calm.RUnlock()
	}
}

// jump sets the machine's clock forward or back, and right again after a while.
func (d *disturber) jump(ctx context.Context, every time.Duration) {
	for {
		sleep(ctx, d.between(every/2, 2*every))
		if ctx.Err() != nil {
			return
		}
		d.calm.RLock()
		from := time.Now()
		by := d.between(time.Second, time.Minute)
		if d.draw(2) == 0 {
			by = -by
		}
		err := shift(by)
		sleep(ctx, d.between(time.Second, 15*time.Second))
		if err = errors.Join(err, shift(-by)); err != nil {
			d.t.Errorf("setting the clock: %v", err)
		}
		d.note("clock", "jumped", by.String(), from)
		d.calm.RUnlock()
	}
}

func shift(by time.Duration) error {
	var now syscall.Timeval
	if err := syscall.Gettimeofday(&now); err != nil {
		return err
	}
	then := syscall.NsecToTimeval(now.Nano() + int64(by))
	if err := syscall.Settimeofday(&then); err != nil {
		return fmt.Errorf("by %s: %w", by, err)
	}
	return nil
}

// quiet keeps everything from being disturbed until resumed is called; what is under way is undone first.
func (d *disturber) quiet() (resume func()) {
	d.calm.Lock()
	return d.calm.Unlock
}
