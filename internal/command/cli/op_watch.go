package cli

import (
	"time"

	"github.com/weirhq/weir/client"
)

// watchBar shows how far an operation is.
type watchBar struct {
	*progress
	width   int // of the terminal, 0 if there is none
	started time.Time
}

func newWatchBar(s *session) *watchBar {
	return &watchBar{progress: newProgress(s.errs, 0), width: widthOf(s.errs), started: time.Now()}
}

// barColumns is what a bar takes before its text.
const barColumns = 52

func (b *watchBar) show(o *client.Operation) {
	part := 0.0
	if o.Jobs.Total > 0 {
		part = float64(o.Jobs.Completed) / float64(o.Jobs.Total)
	}
	text := string(o.State)
	if o.Suspended {
		text += ", suspended"
	}
	text += ": " + countsText(o.Jobs)
	if b.width > 0 { // a line that breaks cannot be drawn over
		text = cutTo(text, max(0, b.width-barColumns))
	}
	b.showAs(part, text)
}

// patienceForJobs is after what time it is worth a word that no job has started.
const patienceForJobs = 5 * time.Second

// waits says whether the operation has had no job for a while.
func (b *watchBar) waits(o *client.Operation) bool {
	return o.Jobs.Running == 0 && finishedJobs(o) == 0 && time.Since(b.started) > patienceForJobs
}

// finishedJobs is how many jobs of an operation have ended, in one way or another.
func finishedJobs(o *client.Operation) int64 {
	return o.Jobs.Completed + o.Jobs.Failed + o.Jobs.Aborted
}
