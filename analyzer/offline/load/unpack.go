// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/culprit-project/culprit/analyzer/offline/grammar"
)

// unpacker takes packed files and archives apart, bounded in size, depth and number.
type unpacker struct {
	max    int64
	at     io.ReaderAt // The input where it can be read at any place, and has no holes; else nil.
	room   *budget
	total  *allowance
	isLog  func(head []byte) bool         // Says that a file may be as long as it likes, as only some of its lines are of use.
	member func(name string, data []byte) // data is only valid during the call.
	failed func(name string, err error)   // Says why a member of an archive is not read; the others are.
	zips   int                            // Archives within one another that are in memory.
}

const (
	maxDepth   = 3        // gzip in tar in gzip.
	maxMembers = 1 << 17  // Files in all archives.
	maxName    = 4 << 10  // Bytes of a member's name: an archive may give each one a megabyte.
	maxList    = 16 << 20 // Bytes of a zip's list of members, each of which takes six times as much in memory.
	guessSize  = 1 << 20  // Where the unpacked size is not known.
	peekSize   = 512
	maxWindow  = 128 << 20 // Bytes of memory that a zstd file may ask for: what the zstd program allows without being told.
)

var errTooLarge = errors.New("larger than --max-file-size after unpacking")

// unpack gives member every file in r: r itself when it is not packed.
func (u *unpacker) unpack(name string, size int64, r io.Reader) error {
	return u.layer(name, size, r, 0)
}

func (u *unpacker) layer(name string, size int64, r io.Reader, depth int) error {
	br := bufio.NewReaderSize(r, 64<<10)
	head, err := br.Peek(peekSize)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return fmt.Errorf("reading: %w", unwrapPath(err))
	}
	if len(head) == 0 {
		return errors.New("empty")
	}
	packed, isPacked := packingOf(head)
	switch {
	case (isPacked || isTar(head) || isZip(head)) && depth >= maxDepth:
		return errors.New("packed too often")
	case isPacked:
		zr, err := packed.open(br)
		if err != nil {
			return fmt.Errorf("unpacking %s: %w", packed.name, err)
		}
		defer zr.Close()
		return u.layer(name, 0, u.total.unpacked(zr), depth+1)
	case isTar(head):
		return u.tar(name, br, depth)
	case isZip(head):
		return u.zip(name, size, br, depth)
	default:
		return u.content(name, size, br)
	}
}

// packing is a way to make one file smaller, known by the bytes that it begins with.
type packing struct {
	name  string
	magic []byte
	open  func(io.Reader) (io.ReadCloser, error)
}

var packings = []packing{
	{"gzip", []byte{0x1f, 0x8b}, func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }},
	{"zstd", []byte{0x28, 0xb5, 0x2f, 0xfd}, func(r io.Reader) (io.ReadCloser, error) {
		zr, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return zr.IOReadCloser(), nil
	}},
	{"bzip2", []byte("BZh"), func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(bzip2.NewReader(r)), nil }},
}

func packingOf(head []byte) (packing, bool) {
	i := slices.IndexFunc(packings, func(p packing) bool { return bytes.HasPrefix(head, p.magic) })
	if i < 0 {
		return packing{}, false
	}
	return packings[i], true
}

func isTar(head []byte) bool {
	return len(head) > 262 && bytes.Equal(head[257:262], []byte("ustar"))
}

// isZip reports whether a zip archive begins. What torch.save writes is one, too: a model, and no archive of files to read.
func isZip(head []byte) bool {
	const nameLen, nameAt = 26, 30 // Offsets in the first member's header.
	if !bytes.HasPrefix(head, []byte("PK\x03\x04")) || len(head) <= nameAt {
		return false
	}
	end := nameAt + int(binary.LittleEndian.Uint16(head[nameLen:]))
	return !bytes.HasSuffix(head[nameAt:min(end, len(head))], []byte("/data.pkl"))
}

func (u *unpacker) tar(name string, r io.Reader, depth int) error {
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("unpacking tar: %w", err)
		}
		if h.Typeflag != tar.TypeReg || h.Size == 0 {
			continue
		}
		if err := u.memberOf(name, h.Name, h.Size, tr, depth); err != nil {
			return err
		}
	}
}

// zip reads an archive whose list of members stands at its end.
func (u *unpacker) zip(name string, size int64, r io.Reader, depth int) error {
	at := u.at
	if depth == 0 && at != nil {
		u.total.read.Add(size) // Once, however often its list names the same bytes.
	} else {
		// Not more than one input at a time holds such an archive: what its members take beside it has to come free.
		if u.zips++; u.zips == 1 {
			u.total.inMemory.Lock()
		}
		defer func() {
			if u.zips--; u.zips == 0 {
				u.total.inMemory.Unlock()
			}
		}()
		data, err := io.ReadAll(io.LimitReader(r, u.max+1))
		switch {
		case err != nil:
			return fmt.Errorf("reading: %w", unwrapPath(err))
		case int64(len(data)) > u.max:
			return errTooLarge
		}
		at, size = bytes.NewReader(data), int64(len(data))
	}
	list := &listed{r: at, left: maxList}
	zr, err := zip.NewReader(list, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // Nothing is written by those names.
		return fmt.Errorf("unpacking zip: %w", err)
	}
	list.left = math.MaxInt64
	for _, f := range zr.File {
		if !f.Mode().IsRegular() || f.UncompressedSize64 == 0 {
			continue
		}
		if err := u.memberOf(name, f.Name, int64(min(f.UncompressedSize64, math.MaxInt64)), &zipped{f: f}, depth); err != nil {
			return err
		}
	}
	return nil
}

// listed bounds what reading the list of a zip's members takes: the number that it gives of them need not be true.
type listed struct {
	r    io.ReaderAt
	left int64
}

func (l *listed) ReadAt(p []byte, off int64) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		return 0, fmt.Errorf("its list of members has more than %d MB", maxList>>20)
	}
	return l.r.ReadAt(p, off)
}

const encrypted = 1 // A flag of a zip's member.

// zipped is a zip's member, opened when it is read.
type zipped struct {
	f *zip.File
	r io.Reader
}

func (z *zipped) Read(p []byte) (int, error) {
	if z.r == nil {
		if z.f.Flags&encrypted != 0 {
			return 0, errors.New("encrypted")
		}
		r, err := z.f.Open()
		if err != nil {
			return 0, err
		}
		z.r = r
	}
	return z.r.Read(p)
}

// memberOf reads a member of an archive. The error is about all of them.
func (u *unpacker) memberOf(archive, name string, size int64, r io.Reader, depth int) error {
	if u.total.member.Add(1) > maxMembers {
		return fmt.Errorf("more than %d files in archives", maxMembers)
	}
	if slices.ContainsFunc(strings.Split(name, "/"), hidden) {
		return nil
	}
	if name = strings.ToValidUTF8(name, "\ufffd"); len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "") + "…"
	}
	err := u.layer(archive+"/"+name, size, u.total.unpacked(r), depth+1)
	switch {
	case errors.Is(err, errUnpacks):
		return fmt.Errorf("%s: %w", name, err)
	case err != nil:
		u.failed(archive+"/"+name, err)
	}
	return nil
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// content reads one file into memory and hands it on. Of a long log only the lines of use are kept.
func (u *unpacker) content(name string, size int64, r *bufio.Reader) error {
	head, _ := r.Peek(r.Size())
	log := u.isLog(head)
	if size > u.max && !log {
		return errTooLarge
	}
	expected := max(min(size, u.max), guessSize)
	reserve := u.room.take(expected)
	defer func() { u.room.give(reserve) }()
	buf, _ := buffers.Get().(*bytes.Buffer)
	defer func() {
		const keep = 16 << 20 // Larger ones would stay in the pool for nothing.
		if buf.Cap() <= keep {
			buf.Reset()
			buffers.Put(buf)
		}
	}()
	if log && size > longLog {
		return u.sieved(name, r)
	}
	most := u.max
	if log {
		most = longLog
	}
	buf.Grow(int(min(expected, most)) + bytes.MinRead) // Growing by and by would hold it twice.
	n, err := buf.ReadFrom(io.LimitReader(r, min(expected, most)+1))
	if err == nil && n > expected && n <= most {
		// More than was thought, as what is unpacked may be: wait until there is room for the most that it can become.
		u.room.give(reserve)
		reserve = u.room.take(most)
		var rest int64
		rest, err = buf.ReadFrom(io.LimitReader(r, most+1-n))
		n += rest
	}
	switch {
	case n > most && log:
		return u.sieved(name, io.MultiReader(buf, r))
	case n > most:
		return errTooLarge
	case err != nil && n == 0:
		return fmt.Errorf("reading: %w", unwrapPath(err))
	case n == 0:
		return errors.New("empty")
	}
	// What was read before an error (a cut-off gzip) may still hold something.
	u.member(name, buf.Bytes())
	if err != nil {
		return fmt.Errorf("reading stopped after %d bytes: %w", n, unwrapPath(err))
	}
	return nil
}

// longLog is the size from which a log is not held in memory as a whole.
const longLog = 64 << 20

func (u *unpacker) sieved(name string, r io.Reader) error {
	kept, cut, err := grammar.Sieve(r)
	if len(kept) > 0 {
		u.member(name, kept)
	}
	if err != nil {
		return fmt.Errorf("reading stopped: %w", unwrapPath(err))
	}
	if cut {
		return errors.New("a log with more messages than fit: used the first of them")
	}
	return nil
}
