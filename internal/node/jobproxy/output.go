package jobproxy

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Output is the stored part of a stream: its head and its tail.
type Output struct {
	Head    []byte
	Tail    []byte // empty if Head is everything
	Size    int64  // of all that was written
	Skipped int64  // between Head and Tail, not stored
}

// tailPieces is how many pieces the tail of a stream is stored in; a new piece replaces the oldest.
const (
	tailPieces    = 4
	smallestPiece = 4 << 10
)

// headSize is the size of the stored head, pieceSize that of a piece of the tail.
func headSize(limit int64) int64  { return (limit + 1) / 2 }
func pieceSize(limit int64) int64 { return max(limit/2/tailPieces, smallestPiece) }

// keeper writes a stream into files, the head into one and the tail into a few that rotate, so that a flood of output
// uses bounded space and the stored part is readable at any time. The name of a file ends with the offset of its first
// byte: no other record is needed, and none can be wrong after a crash.
type keeper struct {
	dir, name string
	limit     int64
	size      int64 // written so far
	file      *os.File
	room      int64   // left in file
	pieces    []int64 // offsets of the tail's files
	err       error   // why storing has stopped
}

func newKeeper(dir, name string, limit int64) *keeper {
	return &keeper{dir: dir, name: name, limit: limit}
}

func (k *keeper) path(offset int64) string {
	return filepath.Join(k.dir, k.name+"."+strconv.FormatInt(offset, 10))
}

// Write never fails: a job must not stop because its stderr cannot be stored.
func (k *keeper) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 {
		if k.room == 0 {
			if kept := tailPieces * pieceSize(k.limit); k.size > 0 && int64(len(p)) > kept { // it would be dropped at once
				k.size += int64(len(p)) - kept
				p = p[int64(len(p))-kept:]
			}
			k.turn()
		}
		n := min(int64(len(p)), k.room)
		if k.err == nil {
			_, k.err = k.file.Write(p[:n])
		}
		k.size += n
		k.room -= n
		p = p[n:]
	}
	return written, nil
}

// turn starts the next file.
func (k *keeper) turn() {
	k.Close()
	k.room = pieceSize(k.limit)
	if k.size == 0 {
		k.room = max(headSize(k.limit), 1)
	} else {
		k.pieces = append(k.pieces, k.size)
		if len(k.pieces) > tailPieces {
			os.Remove(k.path(k.pieces[0]))
			k.pieces = k.pieces[1:]
		}
	}
	if k.err == nil {
		k.file, k.err = os.OpenFile(k.path(k.size), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	}
}

// Close closes the current file.
func (k *keeper) Close() error {
	if k.file == nil {
		return nil
	}
	err := k.file.Close()
	k.file = nil
	return err
}

// ReadOutput returns the stored part of a stream, "stderr" or "stdout", of a job that runs or has ended, at most limit
// bytes of it.
func ReadOutput(dir, name string, limit int64) (Output, error) {
	for {
		kept, err := FindOutput(dir, name, limit)
		if err != nil {
			return Output{}, err
		}
		text := make([]byte, kept.Len())
		if _, err := kept.ReadAt(text, 0); errors.Is(err, fs.ErrNotExist) {
			continue // a piece was dropped meanwhile
		} else if err != nil && !errors.Is(err, io.EOF) {
			return Output{}, fmt.Errorf("%s of job: %w", name, err)
		}
		return Output{Head: text[:kept.head], Tail: text[kept.head:], Size: kept.Size, Skipped: kept.Skipped}, nil
	}
}

// Kept describes where the stored part of a stream is on disk. It holds none of its bytes.
type Kept struct {
	Size     int64 // of all that was written
	Skipped  int64 // in the middle, not stored
	head     int64 // length of the part before the gap; everything if there is none
	sections []section
}

// section is a part of a file.
type section struct {
	path         string
	from, length int64
}

// Len is how many bytes are stored.
func (k *Kept) Len() (total int64) {
	for _, s := range k.sections {
		total += s.length
	}
	return total
}

// ReadAt reads stored bytes, as if there were no gap. The error is io.EOF at their end, and fs.ErrNotExist if the job
// has written so much since FindOutput that a piece was dropped.
func (k *Kept) ReadAt(into []byte, offset int64) (read int, err error) {
	for _, s := range k.sections {
		if offset >= s.length {
			offset -= s.length
			continue
		}
		n := min(int64(len(into)-read), s.length-offset)
		if err := s.read(into[read:read+int(n)], offset); err != nil {
			return read, err
		}
		read, offset = read+int(n), 0
		if read == len(into) {
			return read, nil
		}
	}
	return read, io.EOF
}

func (s *section) read(into []byte, offset int64) error {
	file, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.ReadFull(io.NewSectionReader(file, s.from+offset, int64(len(into))), into)
	return err
}

type piece struct {
	path         string
	offset, size int64
}

func (p piece) end() int64 { return p.offset + p.size }

func findPieces(dir, name string) ([]piece, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("%s of job: %w", name, err)
	}
	var pieces []piece
	for _, entry := range entries {
		suffix, ours := strings.CutPrefix(entry.Name(), name+".")
		offset, err := strconv.ParseInt(suffix, 10, 64)
		if !ours || err != nil || offset < 0 {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // dropped meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("%s of job: %w", name, err)
		}
		pieces = append(pieces, piece{filepath.Join(dir, entry.Name()), offset, info.Size()})
	}
	slices.SortFunc(pieces, func(a, b piece) int { return cmp.Compare(a.offset, b.offset) })
	return pieces, nil
}

// FindOutput finds the stored part of a stream, "stderr" or "stdout", of a job that runs or has ended: at most limit
// bytes, half of them from its head and the rest from its tail.
func FindOutput(dir, name string, limit int64) (*Kept, error) {
	pieces, err := findPieces(dir, name)
	if err != nil || len(pieces) == 0 {
		return &Kept{}, err
	}
	first, tail := pieces[0], pieces[1:]
	for i := 1; i < len(tail); i++ {
		if tail[i].offset != tail[i-1].end() {
			tail = tail[i:] // bytes before a gap are not part of the tail
			i = 0
		}
	}
	kept := &Kept{Size: pieces[len(pieces)-1].end()}
	whole := len(tail) == 0 || tail[0].offset == first.end()
	if whole && kept.Size <= limit {
		for _, p := range pieces {
			kept.sections = append(kept.sections, section{p.path, 0, p.size})
		}
		kept.head = kept.Size
		return kept, nil
	}
	kept.head = min(first.size, headSize(limit))
	if len(tail) == 0 {
		tail = []piece{{first.path, 0, first.size}}
	}
	kept.sections = []section{{first.path, 0, kept.head}}
	// The tail: its last bytes that fit into the limit and are not in the head.
	from := max(tail[0].offset, kept.Size-(limit-kept.head), kept.head)
	for _, p := range tail {
		if start := max(from, p.offset); start < p.end() {
			kept.sections = append(kept.sections, section{p.path, start - p.offset, p.end() - start})
		}
	}
	kept.Skipped = kept.Size - kept.Len()
	return kept, nil
}

// Text joins the stored parts, with a line about the gap between them.
func (o Output) Text() []byte {
	if o.Skipped == 0 {
		return append(slices.Clone(o.Head), o.Tail...)
	}
	gap := fmt.Sprintf("\n...%d bytes are not kept...\n", o.Skipped)
	return slices.Concat(o.Head, []byte(gap), o.Tail)
}

// drain stores a stream until it ends, and then closes the file. It moves bytes from the pipe to the file in the kernel,
// so that a byte is always in one of them: if this process dies, a successor finds the rest in the pipe.
func drain(from *os.File, to *keeper) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer from.Close()
		raw, err := from.SyscallConn()
		if err != nil {
			to.err = err
			return
		}
		for more := true; more && err == nil; {
			err = raw.Read(func(fd uintptr) (ready bool) {
				more, ready = to.take(int(fd))
				return ready
			})
		}
	}()
	return done
}

// spliceSize is how much take moves at once.
const spliceSize = 64 << 10

// take moves what is in a pipe into the stored files. more is false at the end of the stream, ready if there is nothing
// to wait for.
func (k *keeper) take(pipe int) (more, ready bool) {
	for {
		if k.room == 0 {
			k.turn()
		}
		if k.err != nil {
			return k.discard(pipe)
		}
		n, err := unix.Splice(pipe, nil, int(k.file.Fd()), nil, int(min(k.room, spliceSize)), unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return true, false
		case err != nil:
			k.err = os.NewSyscallError("splice", err)
		case n == 0:
			return false, true
		default:
			k.size += n
			k.room -= n
		}
	}
}

// discard empties a pipe whose contents cannot be stored: a job must not stop because of that.
func (k *keeper) discard(pipe int) (more, ready bool) {
	buffer := make([]byte, 4<<10)
	for {
		n, err := unix.Read(pipe, buffer)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return true, false
		case err != nil || n == 0:
			return false, true
		default:
			k.size += int64(n)
		}
	}
}

// resume continues with the files that a predecessor stored.
func (k *keeper) resume() error {
	pieces, err := findPieces(k.dir, k.name)
	if err != nil || len(pieces) == 0 {
		return err
	}
	last := pieces[len(pieces)-1]
	k.size = last.end()
	capacity := pieceSize(k.limit)
	if last.offset == 0 {
		capacity = max(headSize(k.limit), 1)
	}
	for _, p := range pieces[1:] {
		k.pieces = append(k.pieces, p.offset)
	}
	if k.room = max(capacity-last.size, 0); k.room == 0 {
		return nil
	}
	if k.file, err = os.OpenFile(last.path, os.O_WRONLY, 0); err != nil {
		return fmt.Errorf("%s of job: %w", k.name, err)
	}
	_, err = k.file.Seek(0, io.SeekEnd)
	return err
}
