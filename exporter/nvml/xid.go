// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && !nonvml

package nvml

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const (
	// eventWaitMS is how long one wait for an event lasts before the context is looked at.
	eventWaitMS = 1000
	// lostPause is the pause before a lost GPU is opened again.
	lostPause = time.Second
)

// WatchXIDs waits in an event set of this GPU alone: a lost GPU makes every wait of its set fail.
func (l *library) WatchXIDs(ctx context.Context, index int, tell func(XID)) error {
	for ctx.Err() == nil {
		if err := l.watch(ctx, index, tell); !errors.Is(err, ErrLost) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(lostPause):
		}
	}
	return nil
}

// watch tells of XIDs until ctx ends or the GPU is lost.
func (l *library) watch(ctx context.Context, index int, tell func(XID)) error {
	handle, ret := l.lib.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		return failed("opening", index, ret)
	}
	uuid, _ := handle.GetUUID() // A lost GPU does not tell it any more.
	set, ret := l.lib.EventSetCreate()
	if ret != nvml.SUCCESS {
		return fmt.Errorf("making an event set: %s", nvml.ErrorString(ret))
	}
	defer func() { _ = set.Free() }() // Nothing can be done about a set that does not go.
	if ret := handle.RegisterEvents(nvml.EventTypeXidCriticalError, set); ret != nvml.SUCCESS {
		return failed("registering for events of", index, ret)
	}
	for ctx.Err() == nil {
		event, ret := set.Wait(eventWaitMS)
		switch {
		case ret == nvml.ERROR_TIMEOUT:
		case ret != nvml.SUCCESS:
			return failed("waiting for events of", index, ret)
		case event.EventType == nvml.EventTypeXidCriticalError:
			tell(XID{UUID: uuid, Code: event.EventData, At: time.Now()})
		}
	}
	return nil
}
