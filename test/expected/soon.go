package expected

import "time"

// Patience is how long a test waits for an event that happens at once on an idle machine.
const Patience = 2 * time.Minute

// firstPause and longestPause bound the time between two looks. Most conditions come to hold at once; on a machine that
// is busy with other tests, frequent looks would only delay the others.
const (
	firstPause   = 2 * time.Millisecond
	longestPause = 50 * time.Millisecond
)

// Soon reports whether a condition comes to hold within Patience. It polls, less and less often.
func Soon(holds func() bool) bool {
	deadline := time.After(Patience)
	for pause := firstPause; !holds(); pause = min(pause*5/4, longestPause) {
		select {
		case <-time.After(pause):
		case <-deadline:
			return false
		}
	}
	return true
}
