package fakenode

import "time"

// Clock is where time comes from.
type Clock interface {
	Now() time.Time
	// Timer fires once after a duration; stop releases it.
	Timer(after time.Duration) (fired <-chan time.Time, stop func())
}

// RealClock is the clock of the machine, or of the bubble of package synctest that it is used
// in.
type RealClock struct{}

// Now returns the time.
func (RealClock) Now() time.Time { return time.Now() }

// Timer starts a timer.
func (RealClock) Timer(after time.Duration) (fired <-chan time.Time, stop func()) {
	timer := time.NewTimer(after)
	return timer.C, func() { timer.Stop() }
}
