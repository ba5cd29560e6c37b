package why

import (
	"errors"

	"github.com/weirhq/weir/internal/engine/core"
	"github.com/weirhq/weir/internal/engine/scheduling"
	"github.com/weirhq/weir/internal/value/resource"
)

// ErrStopped is returned by questions that are stopped before they are answered.
var ErrStopped = errors.New("the question was stopped")

// ErrNoJob reports that a job does not run.
var ErrNoJob = errors.New("the job does not run")

// Job is a running job: where it runs, and what may preempt it.
type Job struct {
	core.JobInfo
	Pool string
	// Newer is the number of the operation's jobs in the tree that are preempted
	// before it.
	Newer int
	// Share and Usage are the operation's fair share and usage, as shares of the
	// tree. Satisfaction is their ratio.
	Share, Usage resource.Shares
	Satisfaction float64
	Starvation   scheduling.Starvation
}

// Job explains a running job.
func (s *Scene) Job(id core.JobID) (*Job, error) {
	info, ok := s.core.JobInfo(id)
	if !ok {
		return nil, ErrNoJob
	}
	j := &Job{JobInfo: info}
	j.Pool, _ = s.core.PoolOf(info.Operation, info.Tree)
	seen := false // JobsOf lists the jobs of a tree in the order that the classes follow
	for _, other := range s.core.JobsOf(info.Operation) {
		switch {
		case other.Job == id:
			seen = true
		case seen && other.Tree == info.Tree && !other.Preempted:
			j.Newer++
		}
	}
	d, _ := s.core.OperationDetails(info.Operation, info.Tree)
	j.Share, j.Usage, j.Satisfaction, j.Starvation = d.Share.Total, d.UsageShare, d.LocalSatisfaction, d.Starvation
	return j, nil
}
