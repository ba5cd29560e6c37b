package ledger

import (
	"encoding/binary"
	"errors"

	"github.com/weirhq/weir/internal/value/resource"
)

// Sums are a pool's books over a time, in one resource.
type Sums struct {
	Promised, Asked, Due, Got, Unclaimed Sum
	Short                                [CauseCount]Sum
	// DueTime is how long anything was due, and KeptTime how long of that at most one
	// percent of it was broken, in microseconds.
	DueTime, KeptTime int64
	// Flow is the books of a relaxed pool, in millionths of the tree × microseconds.
	Flow FlowSums
	// Surplus is what the pool got beyond what was due: Due + Surplus = Got + Missing, exactly.
	// Rows of before 2026-11-17 have none.
	Surplus Sum
}

// FlowSums are the books of the flow of a relaxed pool: what flowed, the part of it that
// was due, because the pool asked for it when it came or could save it until it asked;
// what the pool got by it; and what flowed over because the pool asked for too little.
type FlowSums struct{ Flowed, Due, Got, Overflowed Sum }

func (f *FlowSums) add(other *FlowSums) {
	f.Flowed.Add(other.Flowed)
	f.Due.Add(other.Due)
	f.Got.Add(other.Got)
	f.Overflowed.Add(other.Overflowed)
}

// Verdict returns whether a flow guarantee was kept over a time, by convention a day: the
// pool got at least 99 % of what was due, which is at most what flowed. It is not known
// if nothing was due.
func (f *FlowSums) Verdict() (kept, known bool) {
	due := f.Due.min(f.Flowed)
	if due.IsZero() {
		return false, false
	}
	return f.Got.Seconds() >= 0.99*due.Seconds(), true
}

// IsZero reports whether nothing was promised.
func (s *Sums) IsZero() bool { return *s == Sums{} }

// Add adds the sums of another time or pool.
func (s *Sums) Add(other *Sums) {
	mine, theirs := s.list(), other.list()
	for i := range mine {
		mine[i].Add(*theirs[i])
	}
	s.DueTime += other.DueTime
	s.KeptTime += other.KeptTime
}

// list returns all sums in the order in which they are stored.
func (s *Sums) list() []*Sum {
	list := append(make([]*Sum, 0, storedSums), &s.Promised, &s.Asked, &s.Due, &s.Got, &s.Unclaimed)
	for i := range s.Short {
		list = append(list, &s.Short[i])
	}
	return append(list, &s.Flow.Flowed, &s.Flow.Due, &s.Flow.Got, &s.Flow.Overflowed, &s.Surplus)
}

// Missing returns what was due and not got.
func (s *Sums) Missing() (missing Sum) {
	for _, part := range s.Short {
		missing.Add(part)
	}
	return missing
}

// Broken returns what was due and not got for reasons that are not the pool's own.
func (s *Sums) Broken() (broken Sum) {
	for cause, part := range s.Short {
		if !Cause(cause).IsOwn() {
			broken.Add(part)
		}
	}
	return broken
}

// Kept returns the part of what was due that was not broken. It is not known if
// nothing was due.
func (s *Sums) Kept() (part float64, known bool) {
	if s.Due.IsZero() {
		return 0, false
	}
	return 1 - s.Broken().Seconds()/s.Due.Seconds(), true
}

// accrue adds what happened in a time of constant amounts.
func (s *Sums) accrue(c *Claim, got int64, parts *Parts, micros int64) {
	promised, due := c.Promised(), c.Due()
	s.Promised.add(promised, micros)
	s.Asked.add(c.Asked, micros)
	s.Due.add(due, micros)
	s.Got.add(got, micros)
	s.Unclaimed.add(promised-due, micros)
	s.Surplus.add(max(got-due, 0), micros)
	broken := int64(0)
	for cause, part := range parts {
		if part == 0 {
			continue
		}
		s.Short[cause].add(part, micros)
		if !Cause(cause).IsOwn() {
			broken += part
		}
	}
	if due > 0 {
		s.DueTime += micros
		if broken*100 <= due {
			s.KeptTime += micros
		}
	}
}

// accrue adds what happened in a time of constant amounts. credit is what the pool had
// saved and not asked for; it returns what is left of it.
func (f *FlowSums) accrue(c *Claim, got, credit, micros int64) int64 {
	r := &c.Relaxed
	f.Flowed.add(r.Flow, micros)
	by := int64(0)
	if c.Total > 0 {
		by = min(int64(float64(max(got-r.Strong, 0))/float64(c.Total)*1e6), r.Share)
	}
	f.Got.add(by, micros)
	flowed, asked := r.Flow*micros, r.Asked*micros
	due := min(asked, credit+flowed)
	f.Due.add(due, 1)
	credit += flowed - due
	if over := credit - max(r.Capacity, 0); over > 0 {
		f.Overflowed.add(min(over, flowed), 1)
		credit -= min(over, flowed)
	}
	return credit
}

// ByResource are sums by resource: the dominant resource of a pool's demand changes
// with its operations.
type ByResource [resource.KindCount]Sums

// GatherFlow adds the flows of all resources to that of the first resource in which
// anything was promised: a flow is a part of the tree, whichever resource dominated.
func (b *ByResource) GatherFlow() {
	first := -1
	for k := range b {
		switch {
		case b[k].IsZero():
		case first < 0:
			first = k
		default:
			b[first].Flow.add(&b[k].Flow)
			b[k].Flow = FlowSums{}
		}
	}
}

func (b *ByResource) add(other *ByResource) {
	for k := range b {
		b[k].Add(&other[k])
	}
}

// Stored sums start with the number of sums of each resource, so that readers of older
// rows know which they have.
const storedSums = 5 + int(CauseCount) + 4 + 1

// encode returns the sums of all resources in which anything was promised.
func (b *ByResource) encode() []byte {
	data := []byte{byte(storedSums)}
	for k := range b {
		s := &b[k]
		if s.IsZero() {
			continue
		}
		data = append(data, byte(k))
		for _, sum := range s.list() {
			data = sum.encode(data)
		}
		data = binary.AppendUvarint(binary.AppendUvarint(data, uint64(s.DueTime)), uint64(s.KeptTime))
	}
	return data
}

var errCorrupt = errors.New("a row of the ledger is corrupt")

// Decode reads the data of a row with sums.
func Decode(data []byte) (b ByResource, err error) {
	r := reader{data: data}
	stored := int(r.byte())
	for len(r.data) > 0 && !r.failed {
		k := r.byte()
		if int(k) >= len(b) || stored > storedSums {
			return b, errCorrupt
		}
		for _, sum := range b[k].list()[:stored] {
			sum.hi, sum.lo = r.number(), r.number()
		}
		b[k].DueTime, b[k].KeptTime = int64(r.number()), int64(r.number())
	}
	if r.failed {
		return b, errCorrupt
	}
	return b, nil
}

// reader reads stored values; failed is set if the data ends early.
type reader struct {
	data   []byte
	failed bool
}

func (r *reader) byte() byte {
	if len(r.data) == 0 {
		r.failed = true
		return 0
	}
	first := r.data[0]
	r.data = r.data[1:]
	return first
}

func (r *reader) signed() int64 {
	value, n := binary.Varint(r.data)
	if n <= 0 {
		r.failed = true
		return 0
	}
	r.data = r.data[n:]
	return value
}

func (r *reader) number() uint64 {
	value, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.failed = true
		return 0
	}
	r.data = r.data[n:]
	return value
}
