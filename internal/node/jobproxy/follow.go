package jobproxy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Part is a part of a stream that a job has written.
type Part struct {
	Offset int64 // of the first byte
	Data   []byte
	Size   int64 // of the whole stream so far
}

// End is the offset after the last byte.
func (p *Part) End() int64 { return p.Offset + int64(len(p.Data)) }

// ReadPart reads a stream, "stderr" or "stdout", of a job that runs or has ended, from an offset on, into a buffer. Where
// the bytes at the offset are not kept, it goes on at the first byte after them that is. At the end of the stream there
// is no data.
func ReadPart(dir, name string, offset int64, buffer []byte) (Part, error) {
	for {
		part, err := readPart(dir, name, offset, buffer)
		if errors.Is(err, fs.ErrNotExist) && isDirectory(dir) {
			continue // a piece was dropped meanwhile
		}
		return part, err
	}
}

func readPart(dir, name string, offset int64, buffer []byte) (Part, error) {
	pieces, err := findPieces(dir, name)
	if err != nil {
		return Part{}, err
	}
	part := Part{Offset: offset}
	if len(pieces) == 0 {
		return part, nil
	}
	part.Size = pieces[len(pieces)-1].end()
	for _, p := range pieces {
		if p.end() <= offset || p.size == 0 {
			continue
		}
		part.Offset = max(offset, p.offset)
		file, err := os.Open(p.path)
		if err != nil {
			return part, err
		}
		defer file.Close()
		n, err := file.ReadAt(buffer, part.Offset-p.offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return part, fmt.Errorf("%s of job: %w", name, err)
		}
		part.Data = buffer[:n]
		part.Size = max(part.Size, part.End())
		return part, nil
	}
	return part, nil
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// HasEnded reports whether the result of a job is known: its streams do not grow any more.
func HasEnded(dir string) bool { return exists(dir, resultFile) }
