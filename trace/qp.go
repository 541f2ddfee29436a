// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"net/netip"

	"github.com/culprit-project/culprit/trace/internal/wire"
)

// readQPs copies the queue pairs in use. There are few, and none without the verbs interposer.
func (f *File) readQPs(s *Snapshot, high uint32) {
	old := s.QPs
	s.QPs = s.QPs[:0]
	for i := range high {
		if f.qps.free(i) {
			continue
		}
		var w wire.QP
		if !readSlot(f.qps, i, &w) {
			s.Status.TornSlots++
			continue
		}
		if w.InUse == 0 || w.CommIndex != wire.None && f.theirs(w.CommIndex) {
			continue
		}
		// Text is made anew only where the slot has another owner.
		device, remote := "", ""
		if n := len(s.QPs); n < len(old) && old[n].Index == i && old[n].Generation == w.Generation && old[n].ConnectedNS == w.ConnectedNS {
			device, remote = old[n].Device, old[n].Remote
		} else {
			device, remote = text(w.Device[:]), address(w.RemoteGID)
		}
		s.QPs = append(s.QPs, QP{
			Index:             i,
			Generation:        w.Generation,
			QPNum:             w.QPNum,
			DestQPNum:         w.DestQPNum,
			CommIndex:         index(w.CommIndex),
			CommGeneration:    w.CommGeneration,
			FlowIndex:         index(w.FlowIndex),
			FlowGeneration:    w.FlowGeneration,
			Peer:              max(w.Peer, -1),
			Port:              w.Port,
			DestLID:           w.DestLID,
			GIDIndex:          w.GIDIndex,
			State:             w.State,
			Device:            device,
			Remote:            remote,
			CreatedNS:         w.CreatedNS,
			ConnectedNS:       w.ConnectedNS,
			LastPostNS:        w.LastPostNS,
			LastCompletionNS:  w.LastCompletionNS,
			SendsPosted:       w.SendsPosted,
			SendsCompleted:    w.SendsCompleted,
			SendBytes:         w.SendBytes,
			ReceivesPosted:    w.ReceivesPosted,
			ReceivesCompleted: w.ReceivesCompleted,
			Errors:            w.Errors,
			LastError:         w.LastError,
			Epochs:            w.Epochs,
			ActiveNS:          w.ActiveNS,
		})
	}
}

// index gives an index that may be missing.
func index(i uint32) int64 {
	if i == wire.None {
		return -1
	}
	return int64(i)
}

// address reads a GID as the IP address that it is on RoCE v2.
func address(gid [16]byte) string {
	if gid == [16]byte{} {
		return ""
	}
	return netip.AddrFrom16(gid).Unmap().String()
}
