package core

import (
	"time"

	"pgregory.net/rapid"
)

// Recorded is an input of a random history, with its time.
type Recorded struct {
	Now   time.Time
	Input Input
}

// RandomHistory makes a random history with faults and configuration changes, for
// tests of rooms that import this one. The first input configures trees of a new
// core with default settings.
func RandomHistory(r *rapid.T, steps int) (list []Recorded) {
	w := newWorld(r, threePools)
	w.addNode(0, 8)
	w.addNode(1, 5)
	w.pass(time.Second)
	for range steps {
		w.step(r)
	}
	for _, e := range w.journal {
		list = append(list, Recorded{e.now, e.input})
	}
	return list
}
