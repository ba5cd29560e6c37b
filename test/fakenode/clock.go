package fakenode

import "time"

// Clock is a source of time.
type Clock interface {
	Now() time.Time
	// Timer fires once after a duration; stop releases it.
	Timer(after time.Duration) (fired <-chan time.Time, stop func())
}

// RealClock is the clock of the machine, or of the surrounding bubble of package synctest.
type RealClock struct{}

// Now returns the time.
func (RealClock) Now() time.Time { return time.Now() }

// Timer starts a timer.
func (RealClock) Timer(after time.Duration) (fired <-chan time.Time, stop func()) {
	timer := time.NewTimer(after)
	return timer.C, func() { timer.Stop() }
}
