package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Recorder collects the points of all pools, rolls them up and returns blocks to store. It holds the blocks that are
// not full yet. It is not safe for concurrent use.
type Recorder struct {
	pools map[poolName]*poolRecord
}

type poolName struct{ tree, pool string }

// poolRecord is one pool's data that is not complete or not stored yet.
type poolRecord struct {
	open [levelCount]openBlock
	// full blocks wait for the next Flush.
	full []Block
	// rising[l] collects the incomplete point of level l+1.
	rising [levelCount - 1]rollup
	// asleep has the open blocks of a pool that no longer records, packed: a removed pool may come back while its
	// blocks, which span days, are not full.
	asleep []Block
}

// openBlock is a block that still grows.
type openBlock struct {
	start int64 // in steps since 1970; meaningful if there are slots
	stretch
	changed bool
}

// rollup is an incomplete point of a coarser level.
type rollup struct {
	step  int64 // which point it is, in its level's steps since 1970
	parts []part
}

// part accumulates the average and the maximum of a series.
type part struct {
	sum, max float64
	count    int64
}

// NewRecorder returns an empty recorder.
func NewRecorder() *Recorder { return &Recorder{pools: map[poolName]*poolRecord{}} }

// Record adds the values of a pool at a time. values[n] is the value of series n, NaN if it has none. Of several values
// within a second the first one wins; a time before the last one is ignored.
func (r *Recorder) Record(now time.Time, tree, pool string, values []float64) {
	name := poolName{tree, pool}
	p := r.pools[name]
	if p == nil {
		p = &poolRecord{}
		r.pools[name] = p
	}
	p.wake(r, now)
	second := now.Unix()
	if b := &p.open[Seconds]; len(b.slots) > 0 && second <= b.last() {
		return
	}
	p.advance(name, second)
	p.add(name, Seconds, second, func(add func(column int32, v float64)) {
		for n, v := range values {
			add(int32(n), v)
		}
	})
	p.raise(Minutes, second, len(values), func(n int) (float64, float64) { return values[n], values[n] })
}

// last returns the step of the last point.
func (b *openBlock) last() int64 { return b.start + int64(b.slots[len(b.slots)-1]) }

// advance completes the points of coarser levels that ended before a second.
func (p *poolRecord) advance(name poolName, second int64) {
	for l := Minutes; l < levelCount; l++ {
		up := &p.rising[l-1]
		if len(up.parts) == 0 || up.step >= floor(second, levels[l].step) {
			continue
		}
		done := up.parts
		at := up.step
		up.parts = nil
		p.add(name, l, at, func(add func(column int32, v float64)) {
			for n, part := range done {
				average, most := math.NaN(), math.NaN()
				if part.count > 0 {
					average, most = part.sum/float64(part.count), part.max
				}
				add(int32(2*n), average)
				add(int32(2*n+1), most)
			}
		})
		if l+1 < levelCount {
			p.raise(l+1, at*levels[l].step, len(done), func(n int) (float64, float64) {
				if done[n].count == 0 {
					return math.NaN(), math.NaN()
				}
				return done[n].sum / float64(done[n].count), done[n].max
			})
		}
	}
}

// raise adds values to the point of a coarser level.
func (p *poolRecord) raise(l Level, second int64, n int, value func(n int) (average, most float64)) {
	up := &p.rising[l-1]
	if len(up.parts) == 0 {
		up.step = floor(second, levels[l].step)
	}
	for len(up.parts) < n {
		up.parts = append(up.parts, part{max: math.Inf(-1)})
	}
	for i := range n {
		average, most := value(i)
		if math.IsNaN(average) || math.IsInf(average, 0) {
			continue
		}
		part := &up.parts[i]
		part.sum += average
		part.count++
		part.max = max(part.max, most)
	}
}

// add appends a point to the open block of a level. The previous block becomes full.
func (p *poolRecord) add(name poolName, l Level, step int64, each func(add func(column int32, v float64))) {
	b := &p.open[l]
	start := floor(step, levels[l].points) * levels[l].points
	if len(b.slots) > 0 && b.start != start {
		if b.changed {
			p.full = append(p.full, b.pack(name, l))
		}
		*b = openBlock{}
	}
	b.start, b.changed = start, true
	before := len(b.slots)
	b.slots = append(b.slots, int32(step-start))
	each(func(number int32, v float64) {
		c := b.column(number)
		if c == nil {
			if math.IsNaN(v) {
				return
			}
			c = &column{}
			b.set(number, c)
			for range before {
				c.add(math.NaN())
			}
		}
		c.add(v)
	})
	for _, c := range b.columns { // series that were not given
		for c != nil && c.n < len(b.slots) {
			c.add(math.NaN())
		}
	}
}

func (b *openBlock) pack(name poolName, l Level) Block {
	return Block{
		Tree: name.tree, Pool: name.pool, Level: l,
		Start: time.Unix(b.start*levels[l].step, 0).UTC(), Data: b.encode(),
	}
}

// Flush returns the blocks that changed since the last Flush, ordered by tree, pool, level and start, and drops those
// that are full. Blocks that are not full are returned again, longer, after they have changed. Pools that have been
// silent for the span of a block fall asleep as soon as everything of them is stored, and are dropped when none of
// their blocks can be continued.
func (r *Recorder) Flush(now time.Time) []Block {
	var blocks []Block
	for name, p := range r.pools {
		silent := len(p.open[Seconds].slots) == 0 || now.Unix()-p.open[Seconds].last() > levels[Seconds].points
		if silent {
			p.advance(name, now.Unix())
		}
		blocks = append(blocks, p.full...)
		p.full = nil
		for l := range p.open {
			if b := &p.open[l]; b.changed {
				blocks = append(blocks, b.pack(name, Level(l)))
				b.changed = false
			}
		}
		if silent && !p.isRising() {
			if p.fallAsleep(name, now); len(p.asleep) == 0 {
				delete(r.pools, name)
			}
		}
	}
	slices.SortFunc(blocks, func(a, b Block) int {
		return cmp.Or(strings.Compare(a.Tree, b.Tree), strings.Compare(a.Pool, b.Pool),
			cmp.Compare(a.Level, b.Level), a.Start.Compare(b.Start))
	})
	return blocks
}

func (p *poolRecord) isRising() bool {
	for _, up := range p.rising {
		if len(up.parts) > 0 {
			return true
		}
	}
	return false
}

// fallAsleep packs the open blocks and drops those whose time has passed.
func (p *poolRecord) fallAsleep(name poolName, now time.Time) {
	for l := range p.open {
		if b := &p.open[l]; len(b.slots) > 0 {
			p.asleep = append(p.asleep, b.pack(name, Level(l)))
			*b = openBlock{}
		}
	}
	p.asleep = slices.DeleteFunc(p.asleep, func(b Block) bool { return !b.Start.Add(b.Level.Span()).After(now) })
}

// wake opens the blocks of a pool that records again, if their time has not passed.
func (p *poolRecord) wake(r *Recorder, now time.Time) {
	asleep := p.asleep
	p.asleep = nil
	for _, b := range asleep {
		if b.Start.Add(b.Level.Span()).After(now) {
			_ = r.Restore(now, b) // a block that was packed here can be unpacked
		}
	}
}

// Restore continues a block that was stored before it was full, after a restart. Pass it the blocks that contain the
// current time, before the first Record. Rolled-up points continue too.
func (r *Recorder) Restore(now time.Time, b Block) error {
	if b.Level < 0 || b.Level >= levelCount {
		return fmt.Errorf("%w: %v", errDamaged, b.Level)
	}
	s, err := decode(b.Level, b.Data, nil)
	if err != nil {
		return fmt.Errorf("restore pool %q of tree %q, %v from %v: %w", b.Pool, b.Tree, b.Level, b.Start, err)
	}
	if len(s.slots) == 0 {
		return nil
	}
	name := poolName{b.Tree, b.Pool}
	p := r.pools[name]
	if p == nil {
		p = &poolRecord{}
		r.pools[name] = p
	}
	open := openBlock{start: floor(b.Start.Unix(), levels[b.Level].step), stretch: *s}
	p.open[b.Level] = open
	up := b.Level + 1
	if up >= levelCount {
		return nil
	}
	current := floor(now.Unix(), levels[up].step)
	perSeries := int32(len(columnsOf(b.Level, 0)))
	for i, slot := range open.slots {
		second := (open.start + int64(slot)) * levels[b.Level].step
		if floor(second, levels[up].step) != current {
			continue
		}
		p.raise(up, second, len(open.columns)/int(perSeries), func(n int) (float64, float64) {
			average := open.column(int32(n) * perSeries)
			most := open.column(int32(n)*perSeries + perSeries - 1)
			if average == nil || most == nil {
				return math.NaN(), math.NaN()
			}
			return average.at(i), most.at(i)
		})
	}
	return nil
}

// Points returns the points of some series at a level that have not been stored, from <= time < to. They are newer than
// the stored points; see Merge.
func (r *Recorder) Points(tree, pool string, level Level, series []int32, from, to time.Time) map[int32][]Point {
	p := r.pools[poolName{tree, pool}]
	if p == nil || level < 0 || level >= levelCount {
		return nil
	}
	points := map[int32][]Point{}
	for i := range p.full {
		if p.full[i].Level != level {
			continue
		}
		list, err := p.full[i].Points(series, from, to)
		if err != nil {
			continue // a block that was just packed can be unpacked
		}
		for n, more := range list {
			points[n] = append(points[n], more...)
		}
	}
	b := &p.open[level]
	start := time.Unix(b.start*levels[level].step, 0).UTC()
	for _, n := range series {
		if list := b.points(level, start, n, from, to); len(list) > 0 {
			points[n] = append(points[n], list...)
		}
	}
	return points
}
