package recorder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/weirhq/weir/internal/engine/journal"
)

// ErrNothing reports that the journal has nothing about a time.
var ErrNothing = errors.New("the journal has nothing about this time")

// Export copies the segments that have records between two times; a zero time is no
// bound. It copies whole frames: the file that is being written, and files of
// processes that were killed, end at the last one.
func (r *Recorder) Export(ctx context.Context, to io.Writer, from, until time.Time) error {
	list, err := r.Between(from, until)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return fmt.Errorf("%w%s", ErrNothing, r.extent())
	}
	for _, s := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := exportFile(to, s.Path); err != nil {
			return err
		}
	}
	return nil
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

func exportFile(to io.Writer, path string) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // retention has removed it meanwhile
	}
	if err != nil {
		return err
	}
	defer file.Close()
	length, err := journal.Whole(file)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err = io.CopyN(to, file, length)
	return err
}
