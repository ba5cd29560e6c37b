package fakenode

import (
	"time"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// Script decides what a job does. It is called once for each start, from the goroutine that
// owns the nodes.
type Script func(node string, start nodeproto.Start) Behaviour

// Behaviour is what a job does from its start to its end.
type Behaviour struct {
	// Prepare is how long it takes until the process begins, Duration how long that runs;
	// below zero it never ends by itself.
	Prepare, Duration time.Duration
	// Usage is what the job takes as time goes by, in the order of times.
	Usage []Usage
	// State is how the job ends by itself; unspecified means completed.
	State       nodev1.JobState
	ExitCode    int32
	Error       *nodev1.Error
	AbortReason string
	// Stderr is uploaded first if it is larger than the scheduler wants in a result.
	Stderr     []byte
	Statistics []*nodev1.Statistic
	// IgnoreInterrupt means that only the end of its patience, an abort, ends the job.
	// Otherwise it ends InterruptDelay after it was asked.
	IgnoreInterrupt bool
	InterruptDelay  time.Duration
	// AbortDelay is how long it takes to end an aborted job.
	AbortDelay time.Duration
}

// Usage is what a job takes from a time after the beginning of its process on.
type Usage struct {
	After time.Duration
	// CPU is the limit in force, in hundredths; zero leaves it.
	CPU int64
	// Memory is in use by the user's processes; the job counts with the larger of it and its
	// reserve.
	Memory int64
}

// Steady is a script of jobs that all take so long and complete.
func Steady(duration time.Duration) Script {
	return func(string, nodeproto.Start) Behaviour { return Behaviour{Duration: duration} }
}
