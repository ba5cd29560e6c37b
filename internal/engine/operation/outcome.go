package operation

import (
	"time"

	"github.com/weirhq/weir/internal/value/cpumonitor"
)

// EndState is how a job ended.
type EndState uint8

const (
	EndCompleted   EndState = iota
	EndInterrupted          // it ended early without an error, and restarts
	EndFailed
	EndAborted

	// EndStateCount is the number of states.
	EndStateCount
)

var endStateNames = [EndStateCount]string{"completed", "interrupted", "failed", "aborted"}

// String returns the name that clients see.
func (s EndState) String() string { return nameOf(endStateNames[:], s, "EndState") }

// MarshalText returns the name.
func (s EndState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the name.
func (s *EndState) UnmarshalText(text []byte) (err error) {
	*s, err = valueOf[EndState](endStateNames[:], text, "end of a job")
	return err
}

// Usage is what a job has used, as its node reports it. Zero means not
// measured.
type Usage struct {
	// Job is the number that the owner gave to the job. The controller returns
	// it as the predecessor of a retry.
	Job uint64 `json:"job,omitempty"`
	// Duration is how long the job held its resources.
	Duration time.Duration `json:"duration,omitempty"`
	// UserMaxMemory and ProxyMaxMemory are the most memory that the two
	// processes used, tmpfs not included.
	UserMaxMemory  int64 `json:"user_job_max_memory,omitempty"`
	ProxyMaxMemory int64 `json:"job_proxy_max_memory,omitempty"`
	// TmpfsMaxUsage is the most that all tmpfs volumes held together,
	// TmpfsVolumes the most that each held, in the order of the specification.
	TmpfsMaxUsage int64   `json:"tmpfs_max_usage,omitempty"`
	TmpfsVolumes  []int64 `json:"tmpfs_volumes,omitempty"`
	// UserMemoryTime and ProxyMemoryTime are memory over time, in MiB × seconds.
	UserMemoryTime  int64 `json:"user_job_memory_mb_sec,omitempty"`
	ProxyMemoryTime int64 `json:"job_proxy_memory_mb_sec,omitempty"`
	// CPU is the result of the job's CPU monitor.
	CPU *cpumonitor.Statistics `json:"cpu,omitempty"`
	// More has further statistics, including the job's custom ones. A path for
	// which the controller has its own figure is ignored.
	More []Statistic `json:"more,omitempty"`
}

// sane returns a copy without negative figures, which a broken node may send.
func (u *Usage) sane() Usage {
	s := *u
	s.Duration = max(0, s.Duration)
	for _, figure := range []*int64{&s.UserMaxMemory, &s.ProxyMaxMemory, &s.TmpfsMaxUsage, &s.UserMemoryTime, &s.ProxyMemoryTime} {
		*figure = min(max(0, *figure), maxStatistic)
	}
	return s
}

// Outcome is the end of a job.
type Outcome struct {
	State EndState
	// Reason and Started are for aborted jobs; see JobAborted.
	Reason  AbortReason
	Started bool
	// Failure is for failed jobs.
	Failure Failure
	// Usage is what the job has used, nil if nothing is known.
	Usage *Usage
}

// state returns the state under which the end is counted: some failures count
// as aborts.
func (o *Outcome) state(c *Controller) EndState {
	if o.State == EndFailed && c.ignores(&o.Failure) {
		return EndAborted
	}
	return o.State
}

// JobEnded reports the end of a job with what it has used. It adds the usage
// to digests and statistics, and a job that was aborted for
// resource_overdraft gets more at its next start, even if its usage is
// unknown. Otherwise it does the same as JobCompleted, JobInterrupted,
// JobFailed and JobAborted, which are for owners that measure nothing.
func (c *Controller) JobEnded(job JobRef, o Outcome, now time.Time) (Effects, error) {
	if _, err := c.find(job); err != nil {
		return Effects{}, err
	}
	c.learn(job, &o)
	if c.spec.IsExternal() {
		return c.endExternal(job, &o, now)
	}
	switch o.State {
	case EndCompleted:
		return c.JobCompleted(job, now)
	case EndInterrupted:
		return c.JobInterrupted(job, now)
	case EndFailed:
		return c.JobFailed(job, o.Failure, now)
	}
	return c.JobAborted(job, o.Reason, o.Started, now)
}
