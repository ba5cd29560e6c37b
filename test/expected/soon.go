package expected

import "time"

// Patience is how long a test waits for an event that happens at once on an idle machine.
const Patience = 2 * time.Minute

// Soon reports whether a condition comes to hold within Patience. It polls, so the condition must be
// cheap.
func Soon(holds func() bool) bool {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(Patience)
	for !holds() {
		select {
		case <-ticker.C:
		case <-deadline:
			return false
		}
	}
	return true
}
