// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// process is a child that dies with this program: it gets SIGTERM, then SIGKILL, and the kernel kills it when the
// parent vanishes without saying so.
type process struct {
	name   string
	log    string
	launch func() (*exec.Cmd, error)

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // Closed when the child has been reaped.
}

// startProcess runs a program with its output in dir/name.log. stdout, when not nil, receives the standard output
// instead.
func startProcess(dir, name string, env []string, stdout io.Writer, path string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log")}
	if err := os.WriteFile(p.log, nil, 0o644); err != nil {
		return nil, fmt.Errorf("creating the log of %s: %w", name, err)
	}
	p.launch = func() (*exec.Cmd, error) {
		logFile, err := os.OpenFile(p.log, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return nil, fmt.Errorf("opening the log of %s: %w", name, err)
		}
		defer logFile.Close()
		cmd := exec.Command(path, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), env...)
		cmd.Stderr = logFile
		cmd.Stdout = logFile
		if stdout != nil {
			cmd.Stdout = stdout
		}
		cmd.WaitDelay = 2 * time.Second // Descendants may hold the pipe of the output.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			return nil, fmt.Errorf("starting %s: %w", name, err)
		}
		return cmd, nil
	}
	if err := p.start(); err != nil {
		return nil, err
	}
	return p, nil
}

// start launches the program, again where it has ended.
func (p *process) start() error {
	cmd, err := p.launch()
	if err != nil {
		return err
	}
	done := make(chan struct{})
	p.mu.Lock()
	p.cmd, p.done = cmd, done
	p.mu.Unlock()
	go func() {
		_ = cmd.Wait() // How it ended is in cmd.ProcessState.
		close(done)
	}()
	return nil
}

// now gives the child that runs or ran last.
func (p *process) now() (cmd *exec.Cmd, done <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd, p.done
}

// pid is the child's number.
func (p *process) pid() int {
	cmd, _ := p.now()
	return cmd.Process.Pid
}

// stopGrace is how long a process may take to end by itself.
const stopGrace = 3 * time.Second

// stop ends the process and everything in its group, and waits until it is reaped.
func (p *process) stop() {
	cmd, done := p.now()
	select {
	case <-done:
		return
	default:
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-done:
	case <-time.After(stopGrace):
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-done
	}
	// Whatever the leader left behind.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}

// ended says how the process ended, and its last words, when it has.
func (p *process) ended() (string, bool) {
	cmd, done := p.now()
	select {
	case <-done:
		return fmt.Sprintf("%s ended: %v\n%s", p.name, cmd.ProcessState, p.tail()), true
	default:
		return "", false
	}
}

// tail gives the end of the process's log, for errors.
func (p *process) tail() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return ""
	}
	const keep = 2000
	if len(b) > keep {
		b = b[len(b)-keep:]
	}
	return string(b)
}

// waitHTTP polls url until it answers 200, the process ends or ctx is done.
func (p *process) waitHTTP(ctx context.Context, url string) error {
	_, done := p.now()
	err := poll(ctx, 50*time.Millisecond, func() (bool, error) {
		select {
		case <-done:
			return false, fmt.Errorf("%s ended: %w\n%s", p.name, errEnded, p.tail())
		default:
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false, nil // Not up yet: asked again until ctx is done.
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s at %s: %w", p.name, url, err)
	}
	return nil
}

var errEnded = errors.New("process ended")

// poll calls f every interval until it says true or fails, or ctx is done.
func poll(ctx context.Context, interval time.Duration, f func() (bool, error)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		ok, err := f()
		if err != nil || ok {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
