// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"
)

func burnCommand(app *kingpin.Application, commands map[string]func(context.Context, *settings) error) {
	cmd := app.Command("burn", "Keep one processor busy until ended.").Hidden()
	commands[cmd.FullCommand()] = func(ctx context.Context, _ *settings) error {
		for i := 0; ; i++ {
			if i%(1<<20) == 0 && ctx.Err() != nil {
				return nil
			}
		}
	}
}

// loadKeeper starts and ends processes that keep a processor busy, so that the machine's load stays near a mark.
type loadKeeper struct {
	mark    float64
	program string
	burners []*exec.Cmd
}

// loadPeriod is how often the load is looked at: it is an average over a minute, and slow to answer.
const loadPeriod = 15 * time.Second

// keepLoad holds the machine's load average near the mark until stop is called.
func keepLoad(ctx context.Context, mark float64) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		k := &loadKeeper{mark: mark}
		defer k.end()
		var err error
		if k.program, err = os.Executable(); err != nil {
			say("no load is made: %v", err)
			return
		}
		ticker := time.NewTicker(loadPeriod)
		defer ticker.Stop()
		for {
			k.adjust(loadAverage())
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return func() { cancel(); <-done }
}

// adjust starts or ends one process.
func (k *loadKeeper) adjust(load float64) {
	switch n := len(k.burners); {
	case load < k.mark-0.3 && n < int(k.mark+0.5):
		cmd := exec.Command(k.program, "burn")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			say("no more load is made: %v", err)
			return
		}
		k.burners = append(k.burners, cmd)
	case load > k.mark+0.3 && n > 0:
		k.stop(k.burners[n-1])
		k.burners = k.burners[:n-1]
	}
}

func (k *loadKeeper) stop(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func (k *loadKeeper) end() {
	for _, cmd := range k.burners {
		k.stop(cmd)
	}
}

// loadAverage gives the machine's load over a minute, 0 where it cannot be read.
func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	var load float64
	_, _ = fmt.Fscan(strings.NewReader(string(text)), &load)
	return load
}
