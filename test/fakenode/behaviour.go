package fakenode

import (
	"time"

	"github.com/weirhq/weir/internal/node/nodeproto"
	"github.com/weirhq/weir/internal/node/nodeproto/nodev1"
)

// Script decides how a job behaves. It is called once for each start, from the goroutine that owns the
// nodes.
type Script func(node string, start nodeproto.Start) Behaviour

// Behaviour is how a job behaves from its start to its end.
type Behaviour struct {
	// Prepare is the time until the process starts, Duration how long it runs; a negative one means
	// that it never ends by itself.
	Prepare, Duration time.Duration
	// Usage is the job's usage over time, in the order of times.
	Usage []Usage
	// State is the state in which the job ends by itself; unspecified means completed.
	State       nodev1.JobState
	ExitCode    int32
	Error       *nodev1.Error
	AbortReason string
	// Stderr is uploaded before the result if it is larger than the scheduler accepts in a result.
	Stderr     []byte
	Statistics []*nodev1.Statistic
	// IgnoreInterrupt means that the job ends only when it is aborted at the end of the interruption
	// timeout. Otherwise it ends InterruptDelay after the interruption.
	IgnoreInterrupt bool
	InterruptDelay  time.Duration
	// AbortDelay is how long an aborted job takes to end.
	AbortDelay time.Duration
}

// Usage is a job's usage from a time after the start of its process.
type Usage struct {
	After time.Duration
	// CPU is the current limit in hundredths; zero keeps the previous one.
	CPU int64
	// Memory is the usage of the user's processes; the job holds the larger of it and its reserve.
	Memory int64
}

// Steady returns a script whose jobs all run for this duration and complete.
func Steady(duration time.Duration) Script {
	return func(string, nodeproto.Start) Behaviour { return Behaviour{Duration: duration} }
}
