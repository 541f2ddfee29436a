// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// unpackRatio is how many bytes may come of each that was packed, without end. Logs and dumps come to a tenth or a fiftieth; what comes to less
// still, such as trace files that are empty for the most part, counts against the rest.
const unpackRatio = 100

var errUnpacks = errors.New("all files together unpack to more than --max-unpacked-size")

// allowance bounds what is unpacked of the whole input: a small archive may hold very many files, each of a size that is read, and archives
// may lie in archives. What each layer gives counts.
type allowance struct {
	base              int64
	read, out, member atomic.Int64
	inMemory          sync.Mutex // Held for an archive that has to be in memory as a whole.
}

// packed counts what is read of the input itself.
func (a *allowance) packed(r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		n, err := r.Read(p)
		a.read.Add(int64(n))
		return n, err
	})
}

// unpacked counts what a layer gives, and ends it when the input has given too much.
func (a *allowance) unpacked(r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		n, err := r.Read(p)
		if a.out.Add(int64(n)) > a.base+unpackRatio*a.read.Load() {
			return 0, errUnpacks
		}
		return n, err
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
