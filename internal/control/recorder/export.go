package recorder

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/weirhq/weir/internal/engine/journal"
)

// ErrNothing reports that the journal has nothing about a time.
var ErrNothing = errors.New("the journal has nothing about this time")

// export reads parts of files one after another.
type export struct {
	io.Reader
	files []*os.File
}

// Close closes the files.
func (e *export) Close() error {
	var problems []error
	for _, file := range e.files {
		problems = append(problems, file.Close())
	}
	return errors.Join(problems...)
}

// Open returns the segments that have records between two times, as one journal, and
// its size; a zero time is no bound. It has everything recorded before the call, in whole frames: the file that is
// being written, and files of processes that were killed, end at the last one.
func (r *Recorder) Open(from, to time.Time) (io.ReadCloser, int64, error) {
	r.sync()
	list, err := r.Between(from, to)
	if err != nil {
		return nil, 0, err
	}
	e, parts, size := &export{}, []io.Reader(nil), int64(0)
	for _, s := range list {
		file, err := os.Open(s.Path)
		if errors.Is(err, os.ErrNotExist) {
			continue // retention has removed it meanwhile
		}
		if err != nil {
			return nil, 0, errors.Join(err, e.Close())
		}
		e.files = append(e.files, file)
		length, err := journal.Whole(file)
		if err != nil {
			return nil, 0, errors.Join(fmt.Errorf("%s: %w", s.Path, err), e.Close())
		}
		parts, size = append(parts, io.NewSectionReader(file, 0, length)), size+length
	}
	if size == 0 {
		return nil, 0, errors.Join(fmt.Errorf("%w%s", ErrNothing, r.extent()), e.Close())
	}
	e.Reader = io.MultiReader(parts...)
	return e, size, nil
}

// extent describes what the journal has.
func (r *Recorder) extent() string {
	list, err := r.List()
	if err != nil || len(list) == 0 {
		return ": it is empty"
	}
	last := list[len(list)-1]
	return fmt.Sprintf(": it starts at %s and ends at %s", list[0].Start.Format(time.RFC3339), last.End.UTC().Format(time.RFC3339))
}
