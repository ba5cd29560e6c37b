// Package history packs the time series for the charts into small blocks.
//
// It owns the format of blocks, the levels of resolution, and the recorder that collects
// points and rolls them up. It is pure: time comes in, blocks come out. It must not import
// the store, a clock or anything that does I/O.
//
// A block is a stretch of all series of one pool at one level, because a chart shows one pool
// and all series of a pool change at the same times. Series are numbers here; the store knows
// their names.
//
// Values that do not change within a block are kept exactly. Others are rounded to a decimal
// quantum that is at most 1/500 of the block's range or 1/100000 of its greatest value,
// whichever is more: less than the height of a pixel.
package history

import (
	"fmt"
	"slices"
	"time"
)

// Level is a resolution. Coarser levels keep the average and the maximum of the finer ones.
type Level int

const (
	Seconds Level = iota
	Minutes
	Hours
	levelCount
)

// Levels from the finest to the coarsest.
var Levels = []Level{Seconds, Minutes, Hours}

var levels = [levelCount]struct {
	name   string
	step   int64 // seconds between points
	points int64 // of a block
	keep   time.Duration
}{
	Seconds: {"seconds", 1, 300, time.Hour},
	Minutes: {"minutes", 60, 240, 24 * time.Hour},
	Hours:   {"hours", 3600, 168, 180 * 24 * time.Hour},
}

func (l Level) String() string {
	if l < 0 || l >= levelCount {
		return fmt.Sprintf("level %d", int(l))
	}
	return levels[l].name
}

// Step returns the time between two points.
func (l Level) Step() time.Duration { return time.Duration(levels[l].step) * time.Second }

// Span returns the time that a block covers.
func (l Level) Span() time.Duration { return l.Step() * time.Duration(levels[l].points) }

// Keep returns how long points are kept by default.
func (l Level) Keep() time.Duration { return levels[l].keep }

// BlockStart returns the start of the block that contains a time.
func (l Level) BlockStart(t time.Time) time.Time {
	span := levels[l].step * levels[l].points
	return time.Unix(floor(t.Unix(), span)*span, 0).UTC()
}

// Choose returns the finest level that still has points since from and needs at most
// maxPoints points up to to. Zero maxPoints means any number.
func Choose(now, from, to time.Time, maxPoints int) Level {
	for _, l := range Levels[:len(Levels)-1] {
		if now.Sub(from) <= l.Keep() && (maxPoints <= 0 || to.Sub(from) <= l.Step()*time.Duration(maxPoints)) {
			return l
		}
	}
	return Levels[len(Levels)-1]
}

// floor divides and rounds down.
func floor(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Block is a stretch of one pool's series, as it is stored.
type Block struct {
	Tree  string
	Pool  string
	Level Level
	Start time.Time
	Data  []byte
}

// Point is the value of a series at a time. At the finest level Max equals Average.
type Point struct {
	Time    time.Time
	Average float64
	Max     float64
}

// Merge joins the points of a stored series with those of a recorder. Both are ordered by
// time; where both have a point, the recorder's wins.
func Merge(stored, recorded []Point) []Point {
	if len(recorded) == 0 {
		return stored
	}
	first := recorded[0].Time
	n, _ := slices.BinarySearchFunc(stored, first, func(p Point, t time.Time) int { return p.Time.Compare(t) })
	return append(slices.Clip(stored[:n]), recorded...)
}
