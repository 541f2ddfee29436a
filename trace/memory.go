// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
	"unsafe"

	"github.com/culprit-project/culprit/internal/terminal"
)

// guarded runs read, which touches the mapping. A file that shrinks under a mapping raises SIGBUS on access; here it
// becomes an error of ReasonIO. A fault anywhere else panics as usual.
func (f *File) guarded(read func() error) (err error) {
	if f.data == nil {
		return failf(ReasonIO, "reading trace file: it is closed")
	}
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		r := recover()
		if r == nil {
			return
		}
		fault, ok := r.(interface {
			runtime.Error
			Addr() uintptr
		})
		if !ok || !f.contains(fault.Addr()) {
			panic(r)
		}
		err = failf(ReasonIO, "reading trace file: it shrank while mapped")
	}()
	return read()
}

func (f *File) contains(addr uintptr) bool {
	base := uintptr(unsafe.Pointer(&f.data[0]))
	return addr >= base && addr-base < uintptr(len(f.data))
}

// copyWords copies bytes (a multiple of 8) from shared memory in 64-bit loads that keep their order, so that a
// seqlock around them means something and no 64-bit field is ever torn.
func copyWords[T any](dst *T, src unsafe.Pointer, bytes uintptr) {
	d := unsafe.Slice((*uint64)(unsafe.Pointer(dst)), bytes/8)
	for i := range d {
		d[i] = atomic.LoadUint64((*uint64)(unsafe.Add(src, uintptr(i)*8)))
	}
}

// text takes the string before the first NUL and makes it safe to print, log and export: valid UTF-8 without control
// characters and others that cannot be seen. The array came from another process.
func text(b []byte) string {
	n := 0
	clean := true
	for n < len(b) && b[n] != 0 {
		clean = clean && b[n] >= 0x20 && b[n] < 0x7f
		n++
	}
	if clean {
		return string(b[:n])
	}
	return strings.Map(func(r rune) rune {
		if terminal.Hidden(r) || !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(string(b[:n]), string(utf8.RuneError)))
}
