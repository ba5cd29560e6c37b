package cpumonitor

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Options are the options of the section job_cpu_monitor, under the same names.
type Options struct {
	// EnableReclaim lets the monitor change the limit. Without it everything is computed and shown
	// as if it did, but nothing is to be applied.
	EnableReclaim bool
	CheckPeriod   time.Duration
	StartDelay    time.Duration
	// SmoothingFactor is the weight of the newest reading.
	SmoothingFactor float64
	// RelativeUpperBound and RelativeLowerBound are the parts of the current limit between which
	// usage should be.
	RelativeUpperBound  float64
	RelativeLowerBound  float64
	IncreaseCoefficient float64
	DecreaseCoefficient float64
	VoteWindowSize      int
	// VoteDecisionThreshold must be exceeded, not only reached, by the sum of votes.
	VoteDecisionThreshold int
	MinCPULimit           float64
}

// DefaultOptions are the defaults in the user documents.
func DefaultOptions() Options {
	return Options{
		CheckPeriod: time.Second, SmoothingFactor: 0.1, RelativeUpperBound: 0.9, RelativeLowerBound: 0.6,
		IncreaseCoefficient: 1.45, DecreaseCoefficient: 0.97, VoteWindowSize: 5, VoteDecisionThreshold: 3, MinCPULimit: 1,
	}
}

// Validate returns all problems of the options.
func (o *Options) Validate() error {
	var problems []error
	between := func(name string, value, least, most float64) {
		if !(value >= least && value <= most) {
			problems = append(problems, fmt.Errorf("%s is %v, must be between %v and %v", name, value, least, most))
		}
	}
	positive := func(name string, value int64, shown any) {
		if value <= 0 {
			problems = append(problems, fmt.Errorf("%s is %v, must be above zero", name, shown))
		}
	}
	positive("check_period", int64(o.CheckPeriod), o.CheckPeriod)
	if o.StartDelay < 0 {
		problems = append(problems, fmt.Errorf("start_delay is %v, must not be negative", o.StartDelay))
	}
	between("smoothing_factor", o.SmoothingFactor, 0, 1)
	between("relative_upper_bound", o.RelativeUpperBound, 0, 1)
	between("relative_lower_bound", o.RelativeLowerBound, 0, 1)
	if o.RelativeLowerBound > o.RelativeUpperBound {
		problems = append(problems, fmt.Errorf("relative_lower_bound is %v, above relative_upper_bound, %v", o.RelativeLowerBound, o.RelativeUpperBound))
	}
	between("increase_coefficient", o.IncreaseCoefficient, 1, 2)
	between("decrease_coefficient", o.DecreaseCoefficient, 0, 1)
	positive("vote_window_size", int64(o.VoteWindowSize), o.VoteWindowSize)
	positive("vote_decision_threshold", int64(o.VoteDecisionThreshold), o.VoteDecisionThreshold)
	between("min_cpu_limit", o.MinCPULimit, 0, 1)
	return errors.Join(problems...)
}

func checkHard(hard float64) error {
	if !(hard >= 0) || math.IsInf(hard, 0) {
		return fmt.Errorf("cpu_limit is %v, must be a number not below zero", hard)
	}
	return nil
}
