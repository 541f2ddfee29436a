// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/culprit-project/culprit/trace"
	"github.com/culprit-project/culprit/trace/nodeapi"
)

// fileName is the history file's name in its directory.
const fileName = "culprit-history"

// The file is a ring of blocks behind a page that says what it is. Every block begins on a page, with a header and a
// description of the process it is of, so that what survives can be read whatever became of the rest. The header is
// written last.
const (
	fileMagic  = "culprit-history 4\n"
	blockMagic = 0x31424843 // "CHB1".
	pageBytes  = 4096
	headBytes  = 64
	keyBytes   = 16
	// maxDescription bounds what a block may say of its process.
	maxDescription = 4 << 20
)

// head is a block's header in the file.
type head struct {
	Magic       uint32
	Sum         uint32 // Of the file's key, the rest of the header and the description.
	Sequence    uint64
	MinNS       uint64
	MaxNS       uint64
	Description uint32 // Bytes, as Data.
	Data        uint32
	DataSum     uint32
	_           [20]byte
}

// description is what a block tells of the process that it is of.
type description struct {
	Process nodeapi.Process `json:"process"`
	// Tickets of the last records in this block and those before it.
	Done uint64 `json:"done"`
	Life uint64 `json:"life"`
}

var sums = crc32.MakeTable(crc32.Castagnoli)

// place is where a block lies in the file.
type place struct {
	at, length int64 // Whole pages.
	data       int64 // Where its records begin, from at.
	bytes      int64 // Of records.
	sum        uint32
}

func (p place) overlaps(q place) bool { return p.at < q.at+q.length && q.at < p.at+p.length }

// ring is the history file.
type ring struct {
	file     *os.File
	key      []byte // Random: without it nobody can have records that look like a block when the one that they are in is overwritten.
	size     int64
	next     int64
	sequence uint64
	blocks   []sealedBlock // In the file, oldest first.
	short    int64         // The size that was wanted, where the file system has no room for it; else 0.
}

// leastSize is below which a history file is of no use: some blocks.
const leastSize = 64 << 10

// freeBytes is how much the file system of an open file has left. It is replaced in tests.
var freeBytes = func(file *os.File) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &st); err != nil {
		return 0, fmt.Errorf("looking for room: %w", err)
	}
	return int64(min(st.Bavail, math.MaxInt64/uint64(st.Bsize))) * st.Bsize, nil
}

// fit makes the file smaller where the file system has less room than was asked for: the file is sparse, and would otherwise fail when it is
// full. Others use the room, too: a tenth of it is left to them. A file that an exporter made so stays as it is.
func (r *ring) fit(st *unix.Stat_t) error {
	free, err := freeBytes(r.file)
	if err != nil {
		return err
	}
	room := free + st.Blocks*512 // What the file has already.
	if r.size <= room {
		return nil
	}
	r.short = r.size
	if r.size = (room - room/10) &^ (pageBytes - 1); st.Size >= leastSize && st.Size <= room && st.Size%pageBytes == 0 {
		r.size = st.Size
	}
	if r.size < leastSize {
		return fmt.Errorf("its file system has %d bytes left, of %d that are wanted", room, r.short)
	}
	return nil
}

// openRing opens the history file in dir, or makes it. What an exporter of the same boot has left there stays; its
// blocks are given, oldest first. Only one exporter can use a directory at a time.
func openRing(dir string, size int64, bootID string) (*ring, []recovered, error) {
	file, err := os.OpenFile(filepath.Join(dir, fileName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("--history.dir=%s does not exist: make it, on a tmpfs: %w", dir, err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("opening the history file: %w", err)
	}
	r := &ring{file: file, size: size &^ (pageBytes - 1), next: pageBytes}
	left, err := r.begin(bootID)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("opening the history file: %w", err), file.Close())
	}
	return r, left, nil
}

// begin takes the file over.
func (r *ring) begin(bootID string) ([]recovered, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(r.file.Fd()), &st); err != nil {
		return nil, err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, errors.New("it is not a regular file")
	case int(st.Uid) != os.Geteuid():
		return nil, errors.New("it belongs to another user")
	case r.size < 2*pageBytes:
		return nil, fmt.Errorf("%d bytes are too few", r.size)
	}
	if err := unix.Flock(int(r.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, fmt.Errorf("another exporter uses it: %w", err)
	}
	if err := r.fit(&st); err != nil {
		return nil, err
	}
	first := []byte(fileMagic + bootID + "\n")
	found := make([]byte, len(first)+keyBytes)
	// Time stamps are of the boot that they were made in.
	if _, err := r.file.ReadAt(found, 0); err == nil && bytes.HasPrefix(found, first) && st.Size == r.size {
		r.key = found[len(first):]
		return r.recover(), nil
	}
	r.key = make([]byte, keyBytes)
	if _, err := rand.Read(r.key); err != nil {
		return nil, err
	}
	if err := r.file.Truncate(0); err != nil {
		return nil, err
	}
	if err := r.file.Truncate(r.size); err != nil {
		return nil, err
	}
	_, err := r.file.WriteAt(append(first, r.key...), 0)
	return nil, err
}

// sum checks a header, but for its magic and the sum itself, and the description behind it.
func (r *ring) sum(raw, text []byte) uint32 {
	return crc32.Update(crc32.Update(crc32.Checksum(r.key, sums), sums, raw[8:]), sums, text)
}

func (r *ring) close() error { return r.file.Close() }

// recovered is a block that an earlier exporter has left.
type recovered struct {
	description
	sequence uint64
	block    *block
}

// recover finds the blocks in the file.
func (r *ring) recover() []recovered {
	var list []recovered
	for at := int64(pageBytes); at < r.size; {
		b, err := r.inspect(at)
		if err != nil {
			at += pageBytes
			continue
		}
		list = append(list, b)
		at += b.block.place.length
	}
	slices.SortFunc(list, func(a, b recovered) int { return cmp.Compare(a.sequence, b.sequence) })
	if n := len(list); n > 0 {
		last := list[n-1]
		r.sequence, r.next = last.sequence, last.block.place.at+last.block.place.length
	}
	return list
}

// inspect reads what a block says of itself. Its records are looked at when they are wanted.
func (r *ring) inspect(at int64) (recovered, error) {
	raw := make([]byte, headBytes)
	if _, err := r.file.ReadAt(raw, at); err != nil {
		return recovered{}, err
	}
	var h head
	if err := binary.Read(bytes.NewReader(raw), binary.LittleEndian, &h); err != nil {
		return recovered{}, err
	}
	p := place{at: at, data: headBytes + int64(h.Description), bytes: int64(h.Data), sum: h.DataSum}
	p.length = pages(p.data + p.bytes)
	if h.Magic != blockMagic || h.Description > maxDescription || p.at+p.length > r.size {
		return recovered{}, errCorrupt
	}
	text := make([]byte, h.Description)
	if _, err := r.file.ReadAt(text, at+headBytes); err != nil {
		return recovered{}, err
	}
	if r.sum(raw, text) != h.Sum {
		return recovered{}, errCorrupt
	}
	b := recovered{sequence: h.Sequence, block: &block{minNS: h.MinNS, maxNS: h.MaxNS, spilled: true, place: p}}
	if err := json.Unmarshal(text, &b.description); err != nil {
		return recovered{}, err
	}
	return b, nil
}

func pages(n int64) int64 { return (n + pageBytes - 1) &^ (pageBytes - 1) }

// take moves a block's bytes into the file. It gives the blocks that had to make room, or an error, after which the
// block is as it was.
func (r *ring) take(b sealedBlock, d description) (dropped []sealedBlock, err error) {
	text, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("describing a block of history: %w", err)
	}
	data := b.block.data
	p := place{at: r.next, data: headBytes + int64(len(text)), bytes: int64(len(data)), sum: crc32.Checksum(data, sums)}
	p.length = pages(p.data + p.bytes)
	if p.length > r.size-pageBytes || len(text) > maxDescription {
		return []sealedBlock{b}, nil
	}
	if p.at+p.length > r.size {
		p.at = pageBytes
	}
	for len(r.blocks) > 0 && r.blocks[0].block.place.overlaps(p) {
		dropped = append(dropped, r.blocks[0])
		r.blocks = r.blocks[1:]
	}
	h := head{
		Magic: blockMagic, Sequence: r.sequence + 1, MinNS: b.block.minNS, MaxNS: b.block.maxNS,
		Description: uint32(len(text)), Data: uint32(len(data)), DataSum: p.sum, // Bounded by the file's size.
	}
	var raw bytes.Buffer
	if err := binary.Write(&raw, binary.LittleEndian, h); err != nil {
		return dropped, fmt.Errorf("encoding a block of history: %w", err)
	}
	binary.LittleEndian.PutUint32(raw.Bytes()[4:], r.sum(raw.Bytes(), text))
	for _, part := range []struct {
		bytes []byte
		at    int64
	}{{text, p.at + headBytes}, {data, p.at + p.data}, {raw.Bytes(), p.at}} {
		if _, err := r.file.WriteAt(part.bytes, part.at); err != nil {
			return dropped, fmt.Errorf("writing the history file: %w", err)
		}
	}
	r.sequence++
	b.block.place, b.block.data, b.block.spilled = p, nil, true
	r.next = p.at + p.length
	r.blocks = append(r.blocks, b)
	return dropped, nil
}

// read gives a block's bytes; none when they are not what was written, as after a crash.
func (r *ring) read(b *block) ([]byte, error) {
	data := make([]byte, b.place.bytes)
	if _, err := r.file.ReadAt(data, b.place.at+b.place.data); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the history file: %w", err)
	}
	if crc32.Checksum(data, sums) != b.place.sum {
		return nil, nil
	}
	return data, nil
}

// briefQP is a queue pair without its counts.
func briefQP(q *trace.QP) trace.QP {
	return trace.QP{
		Index: q.Index, Generation: q.Generation, QPNum: q.QPNum, DestQPNum: q.DestQPNum, CommIndex: q.CommIndex, CommGeneration: q.CommGeneration,
		FlowIndex: q.FlowIndex, FlowGeneration: q.FlowGeneration, Peer: q.Peer, Port: q.Port, Device: q.Device, Remote: q.Remote,
	}
}

// brief is a communicator without its counts: what a description needs of it.
func brief(c *trace.Comm) trace.Comm {
	return trace.Comm{
		Index: c.Index, Generation: c.Generation, Ended: c.Ended, Flags: c.Flags, ID: c.ID, NRanks: c.NRanks, Rank: c.Rank, NNodes: c.NNodes,
		Name: c.Name, CreatedNS: c.CreatedNS, DestroyedNS: c.DestroyedNS,
	}
}
