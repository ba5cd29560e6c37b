package expected

import "time"

// Patience is how long a test waits for what must happen: at once on an idle machine, but the machine may be busy.
const Patience = 2 * time.Minute

// Soon says whether something comes to hold within Patience. It looks again and again, so looking must be cheap.
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
