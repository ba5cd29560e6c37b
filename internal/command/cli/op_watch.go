package cli

import (
	"time"

	"github.com/weirhq/weir/client"
)

// watchBar shows the progress of an operation.
type watchBar struct {
	*progress
	width   int // of the terminal, 0 if there is none
	started time.Time
}

func newWatchBar(s *session) *watchBar {
	return &watchBar{progress: newProgress(s.errs, 0), width: widthOf(s.errs), started: time.Now()}
}

// barColumns is the width of a bar without its text.
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
	if b.width > 0 { // a line that wraps cannot be redrawn
		text = cutTo(text, max(0, b.width-barColumns))
	}
	b.showAs(part, text)
}

// patienceForJobs is how long an operation may have no job before the bar mentions it.
const patienceForJobs = 5 * time.Second

// waits reports whether the operation has had no job for a while.
func (b *watchBar) waits(o *client.Operation) bool {
	return o.Jobs.Running == 0 && finishedJobs(o) == 0 && time.Since(b.started) > patienceForJobs
}

// finishedJobs is the number of an operation's ended jobs, whatever their result.
func finishedJobs(o *client.Operation) int64 {
	return o.Jobs.Completed + o.Jobs.Failed + o.Jobs.Aborted
}
