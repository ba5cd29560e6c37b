package cli

import (
	"time"

	"github.com/weirhq/weir/internal/value/yson"
)

// opWatch looks at an operation from time to time until it ends.
type opWatch struct {
	s       *session
	name    string
	bar     *progress
	started time.Time
	last    yson.Node
	state   string
	counts  jobCounts
}

func newWatch(s *session, name string) *opWatch {
	return &opWatch{s: s, name: name, bar: newProgress(s.errs, 0), started: time.Now()}
}

// look asks for the state of the operation and shows it. It says whether the
// operation has ended.
func (w *opWatch) look() (bool, error) {
	o, err := w.s.getOperation(w.name, "id", "state", "suspended", "brief_progress", "result")
	if err != nil {
		return false, err
	}
	w.last, w.state, w.counts = o, cell(field(o, "state")), countsOf(field(o, "brief_progress"))
	part := 0.0
	if w.counts.total > 0 {
		part = float64(w.counts.completed) / float64(w.counts.total)
	}
	text := w.state
	if suspended, _ := field(o, "suspended").Boolean(); suspended {
		text += ", suspended"
	}
	text += ": " + w.counts.String()
	if width := widthOf(w.s.errs); width > 0 { // a line that breaks cannot be drawn over
		text = cutTo(text, max(0, width-barColumns))
	}
	w.bar.showAs(part, text)
	return hasEnded(w.state), nil
}

// patienceForJobs is after what time it is worth a word that no job has started.
const patienceForJobs = 5 * time.Second

// waits says whether the operation has had no job for a while.
func (w *opWatch) waits() bool {
	return w.counts.running == 0 && w.counts.finished() == 0 && time.Since(w.started) > patienceForJobs
}

// barColumns is what a bar takes before its text.
const barColumns = 52

// Pauses between looks grow with the time that has passed: what is short is seen
// at once, what is long does not burden the server.
const (
	shortestPause = 100 * time.Millisecond
	longestPause  = 2 * time.Second
)

// pause waits for the next look, or for the end of the command.
func (w *opWatch) pause() error {
	select {
	case <-w.s.ctx.Done():
		return w.s.ctx.Err()
	case <-time.After(min(shortestPause+time.Since(w.started)/20, longestPause)):
		return nil
	}
}
