// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package look

import "golang.org/x/sys/unix"

var callsHere = map[int]call{unix.SYS_FSTATAT: {"newfstatat", 0, 1}}
