// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Package ports finds ports for programs that are about to be started.
package ports

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
)

// Ports are taken from below Linux's usual range for outgoing connections and port 0 (ip_local_port_range begins at
// 32768): between the moment a port is found free and the moment its program listens, no connection of another program
// can be given it.
const (
	firstPort = 10000
	portCount = 32768 - firstPort
)

// nextPort counts the ports tried by this program. It begins anywhere, so that two programs rarely try the same.
var nextPort atomic.Uint32

func init() { nextPort.Store(rand.Uint32N(portCount)) }

// Free gives n loopback addresses on which nothing listens. No two calls give the same one until all ports have had their turn.
func Free(n int) ([]string, error) {
	addrs := make([]string, 0, n)
	for range portCount {
		if len(addrs) == n {
			return addrs, nil
		}
		port := firstPort + int(nextPort.Add(1)%portCount)
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue // Somebody's: the next one.
		}
		l.Close()
		addrs = append(addrs, addr)
	}
	return nil, errors.New("finding free ports: all are taken")
}
