// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestFree: what is reserved for a program stays free until it listens, whatever connections are made meanwhile.
func TestFree(t *testing.T) {
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Fatal(err)
	}
	firstOutgoing, err := strconv.Atoi(strings.Fields(string(b))[0])
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for range 100 {
		addrs, err := Free(8)
		if err != nil {
			t.Fatal(err)
		}
		for _, addr := range addrs {
			_, port, err := net.SplitHostPort(addr)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := strconv.Atoi(port); err != nil || n >= firstOutgoing && firstOutgoing > firstPort {
				t.Errorf("%s is in the range of outgoing connections, which begins at %d (%v)", addr, firstOutgoing, err)
			}
			if seen[addr] {
				t.Errorf("%s was given twice", addr)
			}
			seen[addr] = true
		}
	}
}
