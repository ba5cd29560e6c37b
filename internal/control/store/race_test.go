//go:build race

package store_test

// raceDetector reports whether the race detector is on, which makes everything several times
// slower.
const raceDetector = true
