// Package recorder writes the journal of a leader's core to files, beside the loop
// that owns the core.
//
//	Recorder    the directory of files: what is kept, listed and exported
//	Recording   the journal of one term; the loop passes it every input
//
// The loop encodes an input and puts the record into a queue; it never waits. A
// goroutine packs records into frames and writes them. If the queue is full, the
// segment ends with a gap, and a new segment starts with a checkpoint when there is
// room again. A process that is killed leaves whole frames: at most the records of
// the last second are missing.
package recorder

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirhq/weir/internal/engine/journal"
)

// Options configure a recorder.
type Options struct {
	// Directory holds the files. It is created with the first one.
	Directory string
	// Build is the version of this program.
	Build string
	// Keep is how long files are kept, and Size the most bytes that they may have
	// together. The current file is always kept.
	Keep time.Duration
	Size int64
	// SegmentTime and SegmentSize are when a segment ends; zero: ten minutes and
	// 64 MiB. Queue is the most bytes of records that wait; zero: 4 MiB.
	SegmentTime time.Duration
	SegmentSize int64
	Queue       int
	// Alert is called with a message when the journal is incomplete or cannot be
	// written, and with an empty one when it is written again.
	Alert func(message string)
	Log   *slog.Logger
}

// Recorder owns the files of journals in one directory.
type Recorder struct {
	options Options
	types   *journal.Types

	mutex     sync.Mutex
	current   string     // the name of the file that is being written
	recording *Recording // the last one; nil before the first

	segments, gaps, bytes atomic.Uint64
}

// New returns a recorder. It creates nothing until a recording starts.
func New(o Options) (*Recorder, error) {
	o.SegmentTime, o.SegmentSize, o.Queue = cmp.Or(o.SegmentTime, 10*time.Minute), cmp.Or(o.SegmentSize, 64<<20), cmp.Or(o.Queue, 4<<20)
	if o.Alert == nil {
		o.Alert = func(string) {}
	}
	types, err := journal.NewTypes()
	if err != nil {
		return nil, err
	}
	return &Recorder{options: o, types: types}, nil
}

// sync waits until everything recorded so far is in the files, or could not be written.
func (r *Recorder) sync() {
	r.mutex.Lock()
	rec := r.recording
	r.mutex.Unlock()
	if rec == nil {
		return
	}
	select {
	case <-rec.queue.sync():
	case <-rec.done:
	}
}

// Counters are counts since the start of the process.
type Counters struct {
	Segments, Gaps, Bytes uint64
}

// Counters returns the counts so far. Those of a nil Recorder are zero.
func (r *Recorder) Counters() Counters {
	if r == nil {
		return Counters{}
	}
	return Counters{Segments: r.segments.Load(), Gaps: r.gaps.Load(), Bytes: r.bytes.Load()}
}

// Segment is a file of a journal.
type Segment struct {
	Path   string
	Epoch  uint64
	Number uint64
	Start  time.Time
	// End is the time of the last write.
	End  time.Time
	Size int64
	// Current reports whether it is being written.
	Current bool
}

const (
	suffix     = ".journal"
	timeLayout = "20060102T150405.000000Z"
)

// fileName is the name of a segment's file. Names sort by time.
func fileName(start time.Time, epoch, number uint64) string {
	return fmt.Sprintf("%s-%d-%d%s", start.UTC().Format(timeLayout), epoch, number, suffix)
}

// segmentOf reads the name of a file.
func segmentOf(name string) (s Segment, ok bool) {
	rest, ok := strings.CutSuffix(name, suffix)
	parts := strings.Split(rest, "-")
	if !ok || len(parts) != 3 {
		return s, false
	}
	var problems [3]error
	s.Start, problems[0] = time.Parse(timeLayout, parts[0])
	s.Epoch, problems[1] = strconv.ParseUint(parts[1], 10, 64)
	s.Number, problems[2] = strconv.ParseUint(parts[2], 10, 64)
	return s, errors.Join(problems[:]...) == nil
}

// List returns the segments in the order of their starts.
func (r *Recorder) List() ([]Segment, error) {
	entries, err := os.ReadDir(r.options.Directory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r.mutex.Lock()
	current := r.current
	r.mutex.Unlock()
	var list []Segment
	for _, entry := range entries {
		s, ok := segmentOf(entry.Name())
		if !ok {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // retention has removed it meanwhile
		}
		if err != nil {
			return nil, err
		}
		s.Path, s.End, s.Size, s.Current = filepath.Join(r.options.Directory, entry.Name()), info.ModTime(), info.Size(), entry.Name() == current
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Segment) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Number, b.Number))
	})
	return list, nil
}

// Between returns the segments that have records between two times; a zero time is
// no bound.
func (r *Recorder) Between(from, to time.Time) ([]Segment, error) {
	list, err := r.List()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(s Segment) bool {
		return !to.IsZero() && s.Start.After(to) || !from.IsZero() && s.End.Before(from) && !s.Current
	}), nil
}

// retain removes the oldest files until the rest is within its bounds.
func (r *Recorder) retain(now time.Time) error {
	list, err := r.List()
	if err != nil {
		return err
	}
	var total int64
	for _, s := range list {
		total += s.Size
	}
	for _, s := range list {
		tooMuch := r.options.Size > 0 && total > r.options.Size
		if s.Current || !tooMuch && now.Sub(s.End) <= r.options.Keep {
			continue
		}
		if err := os.Remove(s.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		total -= s.Size
	}
	return nil
}
