package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// Pool is a pool of a tree.
type Pool struct{ Tree, Name string }

// ComparePools orders pools by tree and name.
func ComparePools(a, b Pool) int {
	return cmp.Or(cmp.Compare(a.Tree, b.Tree), cmp.Compare(a.Name, b.Name))
}

// Entry is the claim of a pool.
type Entry struct {
	Pool
	Claim Claim
}

// Book integrates the claims of pools over time. Times must not go back.
type Book struct {
	accounts map[Pool]*account
	sorted   []*account // all accounts by pool; nil if it is out of date
	away     bool
	round    uint64 // counts updates
	log      *factLog
}

// account is the book of one pool.
type account struct {
	standing // valid if open is set
	pool     Pool
	open     bool
	log      *factLog
	logged   logged
	since    int64 // what happened before is in the sums, in microseconds
	round    uint64
	parts    Parts

	// hour, day and month have the sums of the periods of since. Hours go into days and
	// months when they end.
	hour, day, month period
	ended            []Row // periods that have ended since the last flush
	stored           []byte

	due   float64 // seconds of the whole tree, since the book was made
	short [CauseCount]float64
}

// standing is what holds until something changes.
type standing struct {
	claim Claim
	got   int64
	away  bool
	// credit is what a relaxed pool could still be due of what it has saved, in
	// millionths of the tree × microseconds.
	credit int64
}

// period is a bucket of sums.
type period struct {
	start int64
	sums  ByResource
	dirty bool // it differs from what was flushed
}

// New returns an empty book.
func New() *Book { return &Book{accounts: map[Pool]*account{}, log: &factLog{round: 1}} }

// account returns the account of a pool. A new one starts at a time.
func (b *Book) account(pool Pool, at int64) *account {
	a := b.accounts[pool]
	if a == nil {
		a = &account{pool: pool, since: at, log: b.log}
		b.accounts[pool], b.sorted = a, nil
	}
	return a
}

// Update enters the claims of all pools that have one. away reports whether the
// scheduler gives jobs to no node from now on.
func (b *Book) Update(now time.Time, entries []Entry, away bool) {
	b.Advance(now)
	b.away = away
	b.round++
	for i := range entries {
		e := &entries[i]
		a := b.account(e.Pool, now.UnixMicro())
		if !a.open {
			a.credit = e.Claim.Relaxed.Volume
		}
		a.round, a.open = b.round, true
		a.stand(e.Claim, e.Claim.Got, away)
	}
	for _, a := range b.inOrder() {
		if a.round != b.round && a.open {
			a.open = false
			a.note(false)
		}
	}
}

// Spend enters the usage of a pool, which changes when jobs start and end.
func (b *Book) Spend(now time.Time, pool Pool, usage resource.Amounts) {
	a := b.accounts[pool]
	if a == nil || !a.open || a.got == usage[a.claim.Resource] {
		return
	}
	a.advance(now.UnixMicro())
	a.stand(a.claim, usage[a.claim.Resource], b.away)
}

// Stop enters that the scheduler gives jobs to no node from now on.
func (b *Book) Stop(now time.Time) {
	b.Advance(now)
	b.away = true
	for _, a := range b.inOrder() {
		a.stand(a.claim, a.got, true)
	}
}

// Advance enters that nothing has changed until now.
func (b *Book) Advance(now time.Time) {
	for _, a := range b.inOrder() {
		a.advance(now.UnixMicro())
	}
}

// stand enters what holds from now on. What a relaxed pool has saved beyond its capacity is lost.
func (a *account) stand(c Claim, got int64, away bool) {
	a.claim, a.got, a.away = c, got, away
	a.parts = c.Split(got, away)
	a.credit = min(a.credit, max(c.Relaxed.Capacity, 0))
	a.note(false)
}

// advance enters the time since the last change.
func (a *account) advance(now int64) {
	for a.since < now {
		hour := Hour.startOf(a.since)
		if hour != a.hour.start {
			a.turn(hour)
		}
		until := min(now, hour+int64(time.Hour/time.Microsecond))
		if a.open {
			a.accrue(until - a.since)
		}
		a.since = until
	}
}

// turn starts another hour.
func (a *account) turn(hour int64) {
	if a.hour.sums != (ByResource{}) {
		a.close(Hour, &a.hour)
		a.roll(Day, &a.day)
		a.roll(Month, &a.month)
	}
	if Day.startOf(hour) != Day.startOf(a.hour.start) {
		a.credit = min(a.claim.Relaxed.Volume, max(a.claim.Relaxed.Capacity, 0))
	}
	a.hour = period{start: hour}
	if a.open {
		a.note(true)
	}
}

// roll adds the hour that has ended to a longer period.
func (a *account) roll(level Level, into *period) {
	if start := level.startOf(a.hour.start); into.start != start {
		a.close(level, into)
		*into = period{start: start}
	}
	into.sums.add(&a.hour.sums)
	into.dirty = true
}

// close puts a period aside until the next flush.
func (a *account) close(level Level, p *period) {
	if p.dirty {
		a.ended = append(a.ended, Row{Level: level, Start: micros(p.start), Data: p.sums.encode()})
		p.dirty = false
	}
}

func (a *account) accrue(elapsed int64) {
	sums := &a.hour.sums[a.claim.Resource]
	sums.accrue(&a.claim, a.got, &a.parts, elapsed)
	if a.claim.Relaxed.Flow > 0 {
		a.credit = sums.Flow.accrue(&a.claim, a.got, a.credit, elapsed)
	}
	a.hour.dirty = true
	if a.claim.Total <= 0 {
		return
	}
	part := float64(elapsed) / 1e6 / float64(a.claim.Total)
	a.due += part * float64(a.claim.Due())
	for cause, amount := range a.parts {
		a.short[cause] += part * float64(amount)
	}
}

// Seconds returns what was due to a pool and what it lacked, by cause, in seconds of
// the whole tree, since the book was made. It is not known for pools that had no
// guarantee this month.
func (b *Book) Seconds(pool Pool) (due float64, short [CauseCount]float64, known bool) {
	a := b.accounts[pool]
	if a == nil {
		return 0, short, false
	}
	return a.due, a.short, true
}

// inOrder returns all accounts by pool.
func (b *Book) inOrder() []*account {
	if b.sorted == nil {
		b.sorted = slices.SortedFunc(maps.Values(b.accounts), func(a, b *account) int { return ComparePools(a.pool, b.pool) })
	}
	return b.sorted
}

func micros(t int64) time.Time { return time.UnixMicro(t).UTC() }
