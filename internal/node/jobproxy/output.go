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
)

// Output is what is kept of a stream: its beginning and its end.
type Output struct {
	Head    []byte
	Tail    []byte // empty if Head is everything
	Size    int64  // of all that was written
	Skipped int64  // between Head and Tail, kept nowhere
}

// tailPieces is how many pieces the end of a stream is kept in; the oldest is dropped when a new one begins.
const (
	tailPieces    = 4
	smallestPiece = 4 << 10
)

// headSize is how much of the beginning is kept, pieceSize how large a piece of the end is.
func headSize(limit int64) int64  { return (limit + 1) / 2 }
func pieceSize(limit int64) int64 { return max(limit/2/tailPieces, smallestPiece) }

// keeper writes a stream into files, the beginning into one and the end into a few that take turns, so that a flood
// takes bounded space and what there is can be read at any time. The name of a file ends with the offset of its first
// byte: no other record is needed, and none can be wrong after a crash.
type keeper struct {
	dir, name string
	limit     int64
	size      int64 // written so far
	file      *os.File
	room      int64   // left in file
	pieces    []int64 // offsets of the files of the end
	err       error   // why nothing is kept any more
}

func newKeeper(dir, name string, limit int64) *keeper {
	return &keeper{dir: dir, name: name, limit: limit}
}

func (k *keeper) path(offset int64) string {
	return filepath.Join(k.dir, k.name+"."+strconv.FormatInt(offset, 10))
}

// Write never fails: a job must not stop because its stderr cannot be kept.
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

// turn begins the next file.
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

// ReadOutput returns what is kept of a stream, "stderr" or "stdout", of a job that runs or has ended, at most limit
// bytes of it.
func ReadOutput(dir, name string, limit int64) (Output, error) {
	for {
		out, err := readPieces(dir, name, limit)
		if !errors.Is(err, errTurned) {
			return out, err
		}
	}
}

var errTurned = errors.New("a piece was dropped meanwhile")

type piece struct {
	offset int64
	path   string
}

func findPieces(dir, name string) ([]piece, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("%s of job: %w", name, err)
	}
	var pieces []piece
	for _, entry := range entries {
		suffix, ours := strings.CutPrefix(entry.Name(), name+".")
		if offset, err := strconv.ParseInt(suffix, 10, 64); ours && err == nil && offset >= 0 {
			pieces = append(pieces, piece{offset, filepath.Join(dir, entry.Name())})
		}
	}
	slices.SortFunc(pieces, func(a, b piece) int { return cmp.Compare(a.offset, b.offset) })
	return pieces, nil
}

func readPieces(dir, name string, limit int64) (out Output, err error) {
	pieces, err := findPieces(dir, name)
	if err != nil || len(pieces) == 0 {
		return out, err
	}
	var tail []byte
	var tailStart int64
	for i, p := range pieces {
		text, err := os.ReadFile(p.path)
		if errors.Is(err, fs.ErrNotExist) {
			return out, errTurned
		}
		if err != nil {
			return out, fmt.Errorf("%s of job: %w", name, err)
		}
		switch {
		case i == 0:
			out.Head, out.Size = text, p.offset+int64(len(text))
			continue
		case p.offset != out.Size:
			tail, tailStart = nil, p.offset // what is before a gap is not the end
		case len(tail) == 0:
			tailStart = p.offset
		}
		tail = append(tail, text...)
		out.Size = p.offset + int64(len(text))
	}
	if tailStart == int64(len(out.Head)) && out.Size <= limit { // nothing is missing
		out.Head = append(out.Head, tail...)
		return out, nil
	}
	if len(tail) == 0 {
		out.Head, tail = out.Head[:min(int64(len(out.Head)), headSize(limit))], out.Head[min(int64(len(out.Head)), headSize(limit)):]
	}
	out.Head = out.Head[:min(int64(len(out.Head)), headSize(limit))]
	out.Tail = tail[max(0, int64(len(tail))-(limit-int64(len(out.Head)))):]
	out.Skipped = out.Size - int64(len(out.Head)) - int64(len(out.Tail))
	return out, nil
}

// Text joins what is kept, with a line for what is not.
func (o Output) Text() []byte {
	if o.Skipped == 0 {
		return append(slices.Clone(o.Head), o.Tail...)
	}
	gap := fmt.Sprintf("\n...%d bytes are not kept...\n", o.Skipped)
	return slices.Concat(o.Head, []byte(gap), o.Tail)
}

// drain copies a stream into a keeper until it ends. The file is closed.
func drain(from *os.File, to io.Writer) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer from.Close()
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			to.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	return done
}
