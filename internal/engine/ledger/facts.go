package ledger

import (
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// Facts are all changes of a book between two flushes: the log of which its sums are the
// integral. The owner stores them in the commit with the rows of the flush.
type Facts struct {
	// From and To are the times of the last flush and of this one.
	From, To time.Time
	// Gap reports whether there were too many changes to store: the time cannot be verified.
	Gap  bool
	Data []byte // packed
}

// mostFacts limits the packed changes of a flush, in bytes.
const mostFacts = 256 << 10

// A record of the log is the time, the pool, and what holds from then on.
const (
	factEnd  = iota // the pool has no claim any more
	factFull        // a resource, flags, and all numbers of the standing
	factPart        // a resource, flags, a set of numbers, and by how much these have changed
)

// factLog packs changes until they are flushed. The first record of a pool in each log, and the
// first in each hour, is full, so that a reader can start at any hour.
type factLog struct {
	from   int64 // the last flush
	last   int64 // the time of the last record
	round  uint64
	count  uint64 // pools that were named
	gap    bool
	data   []byte
	packed bytes.Buffer
	packer *flate.Writer
}

// logged is what the log knows of an account.
type logged struct {
	round, number uint64 // its number is valid in this round of the log
	open          bool
	standing      standing
}

// note writes what holds for the account from now on into the log.
func (a *account) note(full bool) {
	l, was := a.log, &a.logged
	if l.gap {
		return
	}
	if was.round != l.round {
		full = true
	}
	mask, deltas := uint64(0), [standingNumbers]int64{}
	if !full {
		before, after := was.standing.numbers(), a.numbers()
		for i := range loggedNumbers {
			if deltas[i] = *after[i] - *before[i]; deltas[i] != 0 {
				mask |= 1 << i
			}
		}
		if mask == 0 && a.open == was.open && a.away == was.standing.away && a.claim.Resource == was.standing.claim.Resource {
			return
		}
	}
	if !a.open && !was.open {
		return
	}
	l.data = binary.AppendVarint(l.data, a.since-l.last)
	l.last = a.since
	if was.round != l.round {
		l.count++
		was.round, was.number = l.round, l.count
		l.data = appendText(appendText(binary.AppendUvarint(l.data, 0), a.pool.Tree), a.pool.Name)
	} else {
		l.data = binary.AppendUvarint(l.data, was.number)
	}
	switch {
	case !a.open:
		l.data = append(l.data, factEnd)
	case full || !was.open:
		l.data = append(append(l.data, factFull), a.encode()...)
	default:
		l.data = binary.AppendUvarint(append(l.data, factPart, byte(a.claim.Resource), a.flags()), mask)
		for i, delta := range deltas {
			if mask>>i&1 != 0 {
				l.data = binary.AppendVarint(l.data, delta)
			}
		}
	}
	was.open, was.standing = a.open, a.standing
	l.gap = len(l.data) > 4*mostFacts
}

// take returns the changes since the last flush.
func (l *factLog) take(now int64) Facts {
	f := Facts{From: micros(l.from), To: micros(now), Gap: l.gap}
	if !l.gap && len(l.data) > 0 {
		l.packed.Reset()
		if l.packer == nil {
			l.packer, _ = flate.NewWriter(nil, flate.BestSpeed) // the level is valid
		}
		l.packer.Reset(&l.packed)
		_, _ = l.packer.Write(l.data) // a buffer takes everything
		_ = l.packer.Close()
		f.Gap = l.packed.Len() > mostFacts
		if !f.Gap {
			f.Data = bytes.Clone(l.packed.Bytes())
		}
	}
	l.from, l.last, l.gap, l.data = now, 0, false, l.data[:0]
	l.count = 0
	l.round++
	return f
}

// Integral is what a log of facts sums to, by pool and hour.
type Integral map[Pool]map[time.Time]*ByResource

// Integrate sums up facts in the order of their flushes, from one hour to another. It shares no code with
// [Book] but the division of what is short at a moment. Facts may start before the first
// hour, and must cover the time from then on.
func Integrate(facts []Facts, from, to time.Time) (Integral, error) {
	pools := map[Pool]*reading{}
	for _, f := range facts {
		if f.Gap {
			return nil, fmt.Errorf("the log has a gap from %s to %s", f.From.Format(time.RFC3339), f.To.Format(time.RFC3339))
		}
		if err := f.each(func(pool Pool, at int64, kind byte, s *standing) {
			p := pools[pool]
			if p == nil {
				p = &reading{sums: map[time.Time]*ByResource{}}
				pools[pool] = p
			}
			p.pass(at, from, to)
			credit := s.credit
			if kind == factPart { // the log does not have it
				credit = min(p.credit, max(s.claim.Relaxed.Capacity, 0))
			}
			p.open, p.standing = kind != factEnd, *s
			p.credit = credit
		}); err != nil {
			return nil, fmt.Errorf("the log from %s to %s: %w", f.From.Format(time.RFC3339), f.To.Format(time.RFC3339), err)
		}
	}
	sums := Integral{}
	for pool, p := range pools {
		if len(facts) > 0 {
			p.pass(facts[len(facts)-1].To.UnixMicro(), from, to)
		}
		if len(p.sums) > 0 {
			sums[pool] = p.sums
		}
	}
	return sums, nil
}

// reading is a pool of a log that is read.
type reading struct {
	standing
	open bool
	at   int64
	sums map[time.Time]*ByResource
}

// pass adds what held until a time.
func (p *reading) pass(until int64, from, to time.Time) {
	for p.at < until && p.open {
		hour := Hour.Start(micros(p.at))
		end := min(until, hour.Add(time.Hour).UnixMicro())
		elapsed := end - p.at
		sums := &Sums{}
		if !hour.Before(from) && hour.Before(to) {
			if p.sums[hour] == nil {
				p.sums[hour] = &ByResource{}
			}
			sums = &p.sums[hour][p.claim.Resource]
		}
		parts := p.claim.Split(p.got, p.away)
		sums.accrue(&p.claim, p.got, &parts, elapsed)
		if p.claim.Relaxed.Flow > 0 {
			p.credit = sums.Flow.accrue(&p.claim, p.got, p.credit, elapsed)
		}
		p.at = end
	}
	p.at = max(p.at, until)
}

// each calls visit for every record, in order, with what holds from its time on.
func (f *Facts) each(visit func(pool Pool, at int64, kind byte, s *standing)) error {
	if len(f.Data) == 0 {
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(f.Data)), 8*mostFacts))
	if err != nil {
		return err
	}
	r := reader{data: data}
	var names []Pool
	var last []standing
	at := int64(0)
	for len(r.data) > 0 && !r.failed {
		at += r.signed()
		number := r.number()
		if number == 0 {
			names, last = append(names, Pool{r.text(), r.text()}), append(last, standing{})
			number = uint64(len(names))
		}
		if number > uint64(len(names)) {
			return errCorrupt
		}
		s := &last[number-1]
		kind := r.byte()
		switch kind {
		case factEnd:
		case factFull:
			if err := s.decode(&r); err != nil {
				return err
			}
		case factPart:
			k, flags := r.byte(), r.byte()
			if k >= byte(resource.KindCount) {
				return errCorrupt
			}
			s.claim.Resource, s.away = resource.Kind(k), flags&awayFlag != 0
			mask, numbers := r.number(), s.numbers()
			for i := range loggedNumbers {
				if mask>>i&1 != 0 {
					*numbers[i] += r.signed()
				}
			}
		default:
			return errCorrupt
		}
		if r.failed {
			break
		}
		visit(names[number-1], at, kind, s)
	}
	if r.failed {
		return errCorrupt
	}
	return nil
}

// Difference is a period of a pool in which stored sums and those of the log differ.
type Difference struct {
	Pool
	Level            Level
	Start            time.Time
	Resource         resource.Kind
	Figure           string
	Stored, Computed Sum
}

// Compare returns where the sums of stored rows of a level differ from computed ones, by pool, time,
// resource and figure.
func Compare(rows []Row, computed Integral, level Level) (differ []Difference, err error) {
	type key struct {
		Pool
		start time.Time
	}
	stored := map[key]*ByResource{}
	for _, row := range rows {
		if row.Level != level {
			continue
		}
		sums, err := Decode(row.Data)
		if err != nil {
			return nil, fmt.Errorf("%s of tree %s at %s: %w", row.Name, row.Tree, row.Start.Format(time.RFC3339), err)
		}
		stored[key{row.Pool, row.Start.UTC()}] = &sums
	}
	all := map[key]*ByResource{}
	for pool, by := range computed {
		for start, sums := range by {
			all[key{pool, start}] = sums
		}
	}
	keys := slices.Collect(maps.Keys(all))
	for k := range stored {
		if all[k] == nil {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b key) int { return cmp.Or(ComparePools(a.Pool, b.Pool), a.start.Compare(b.start)) })
	for _, k := range keys {
		mine, theirs := orZero(stored[k]), orZero(all[k])
		for kind := range mine {
			a, b := mine[kind].figures(), theirs[kind].figures()
			for i := range a {
				if a[i].sum != b[i].sum {
					differ = append(differ, Difference{k.Pool, level, k.start, resource.Kind(kind), a[i].name, a[i].sum, b[i].sum})
				}
			}
		}
	}
	return differ, nil
}

// Total adds up the hours of an integral by periods of a longer level.
func (i Integral) Total(level Level) Integral {
	total := Integral{}
	for pool, hours := range i {
		total[pool] = map[time.Time]*ByResource{}
		for hour, sums := range hours {
			start := level.Start(hour)
			if total[pool][start] == nil {
				total[pool][start] = &ByResource{}
			}
			total[pool][start].add(sums)
		}
	}
	return total
}

// Read returns the sums of stored rows of a level.
func Read(rows []Row, level Level) (Integral, error) {
	read := Integral{}
	for _, row := range rows {
		if row.Level != level {
			continue
		}
		sums, err := Decode(row.Data)
		if err != nil {
			return nil, fmt.Errorf("%s of tree %s at %s: %w", row.Name, row.Tree, row.Start.Format(time.RFC3339), err)
		}
		if read[row.Pool] == nil {
			read[row.Pool] = map[time.Time]*ByResource{}
		}
		read[row.Pool][row.Start.UTC()] = &sums
	}
	return read, nil
}

func orZero(sums *ByResource) *ByResource {
	if sums == nil {
		return &ByResource{}
	}
	return sums
}

// figure is a sum with its name in outputs.
type figure struct {
	name string
	sum  Sum
}

// figures lists all that is stored of a pool and a period.
func (s *Sums) figures() []figure {
	list := []figure{{"promised", s.Promised}, {"asked", s.Asked}, {"due", s.Due}, {"got", s.Got}, {"unclaimed", s.Unclaimed}, {"surplus", s.Surplus}}
	for cause, sum := range s.Short {
		list = append(list, figure{Cause(cause).String(), sum})
	}
	return append(list, figure{"flowed", s.Flow.Flowed}, figure{"flow_due", s.Flow.Due}, figure{"flow_got", s.Flow.Got}, figure{"flow_overflowed", s.Flow.Overflowed},
		figure{"due_time", Sum{lo: uint64(s.DueTime)}}, figure{"kept_time", Sum{lo: uint64(s.KeptTime)}})
}
