//go:build race

package store_test

// raceDetector says that everything takes several times as long.
const raceDetector = true
