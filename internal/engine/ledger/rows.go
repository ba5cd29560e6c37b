package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/value/resource"
)

// Level is the length of a row's period in seconds; months have the length of 30 days. Its
// numbers are stored.
type Level int32

const (
	// Standing rows have what held at the last flush, and start at zero.
	Standing Level = 0
	Hour     Level = 60 * 60
	Day      Level = 24 * 60 * 60
	Month    Level = 30 * 24 * 60 * 60
)

// Levels lists the levels of rows with sums.
var Levels = [...]Level{Hour, Day, Month}

// Start returns the start of the period that contains a time.
func (l Level) Start(t time.Time) time.Time {
	t = t.UTC()
	switch l {
	case Hour:
		return t.Truncate(time.Hour)
	case Day:
		return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
	case Month:
		return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	}
	return time.Time{}
}

// StartUntil returns the start of the period that contains the time right before t: that of the rows that a
// book has at a flush, which ends no hour before more time has passed.
func (l Level) StartUntil(t time.Time) time.Time { return l.Start(t.Add(-time.Microsecond)) }

func (l Level) startOf(t int64) int64 { return l.Start(micros(t)).UnixMicro() }

// String returns the name of the level in outputs.
func (l Level) String() string {
	switch l {
	case Hour:
		return "hour"
	case Day:
		return "day"
	case Month:
		return "month"
	}
	return "standing"
}

// Row is what is stored of a pool for a period.
type Row struct {
	Pool
	Level Level
	Start time.Time // zero for Standing
	Data  []byte
}

// Flush returns the rows that have changed since the last flush, in the order of pools,
// and the standing rows of pools that have no claim any more. The caller stores the
// first, deletes the second, and stores the facts and the time, all in one commit.
func (b *Book) Flush(now time.Time) (put, remove []Row, facts Facts) {
	b.Advance(now)
	for _, a := range b.inOrder() {
		pool, from := a.pool, len(put)
		put = append(put, a.ended...)
		a.ended = nil
		for _, p := range []struct {
			*period
			level Level
		}{{&a.hour, Hour}, {&a.day, Day}, {&a.month, Month}} {
			if p.dirty {
				put = append(put, Row{Level: p.level, Start: micros(p.start), Data: p.sums.encode()})
				p.dirty = false
			}
		}
		switch data := a.encode(); {
		case a.open && !bytes.Equal(data, a.stored):
			put = append(put, Row{Level: Standing, Data: data})
			a.stored = data
		case !a.open && a.stored != nil:
			remove = append(remove, Row{Pool: pool, Level: Standing})
			a.stored = nil
		}
		for i := range put[from:] {
			put[from+i].Pool = pool
		}
		if !a.open && a.hour.sums == (ByResource{}) && a.month.start != Month.startOf(now.UnixMicro()) {
			delete(b.accounts, pool)
			b.sorted = nil
		}
	}
	return put, remove, b.log.take(now.UnixMicro())
}

// Unflushed returns the sums that stored rows may not have yet, as rows of hours. They replace
// stored rows of the same pools and times.
func (b *Book) Unflushed() (rows []Row) {
	for _, a := range b.inOrder() {
		for _, row := range a.ended {
			if row.Level == Hour {
				row.Pool = a.pool
				rows = append(rows, row)
			}
		}
		if a.hour.start != 0 {
			rows = append(rows, Row{Pool: a.pool, Level: Hour, Start: micros(a.hour.start), Data: a.hour.sums.encode()})
		}
	}
	return rows
}

// longestAbsence is how much of a time without a leader is accounted. Beyond that, the
// promises of before say little.
const longestAbsence = 7 * 24 * time.Hour

// Restore makes a book of its last flush: the standing rows, and the rows of the hour,
// day and month until flushed, its time; see [Level.StartUntil]. What held at the flush holds until
// seen, when its leader is last known to have led; from then on the scheduler is away
// until the next Update.
func Restore(rows []Row, flushed, seen, now time.Time) (*Book, error) {
	b := New()
	b.away = true
	if flushed.IsZero() {
		return b, nil
	}
	at := flushed.UnixMicro()
	b.log.from = at
	for _, row := range rows {
		a := b.account(row.Pool, at)
		if row.Level == Standing {
			if err := a.restore(row.Data); err != nil {
				return nil, fmt.Errorf("%s of tree %s: %w", row.Name, row.Tree, err)
			}
			continue
		}
		sums, err := Decode(row.Data)
		if err != nil {
			return nil, fmt.Errorf("%s of tree %s: %w", row.Name, row.Tree, err)
		}
		start := row.Start.UnixMicro()
		if start != row.Level.startOf(at-1) {
			continue
		}
		switch p := (period{start: start, sums: sums}); row.Level {
		case Hour:
			a.hour = p
		case Day:
			a.day = p
		case Month:
			a.month = p
		}
	}
	until := now
	if end := flushed.Add(longestAbsence); end.Before(until) {
		until = end
	}
	for _, a := range b.inOrder() {
		a.advance(max(min(seen.UnixMicro(), until.UnixMicro()), at))
		a.stand(a.claim, a.got, true)
		if until.Before(now) {
			a.advance(until.UnixMicro())
			a.open = false
			a.note(false)
			a.since = now.UnixMicro()
		}
	}
	return b, nil
}

// A standing consists of this many numbers. The log has the changes of all but the last, the credit,
// which follows from the others.
const (
	standingNumbers = 25
	loggedNumbers   = standingNumbers - 1
)

// numbers lists what a standing consists of, in the order in which it is stored.
func (s *standing) numbers() [standingNumbers]*int64 {
	c := &s.claim
	return [standingNumbers]*int64{
		&c.Total, &c.Promise.Oversold, &c.Strong, &c.Burst, &c.Paid, &c.Effective, &c.Asked, &c.Held, &c.Reach, &c.Room, &c.Share, &c.Got, &c.Above,
		&c.Lost, &c.Free.Fitting, &c.Free.Blocked, &c.Free.Closed, &s.got,
		&c.Relaxed.Flow, &c.Relaxed.Asked, &c.Relaxed.Share, &c.Relaxed.Strong, &c.Relaxed.Volume, &c.Relaxed.Capacity, &s.credit,
	}
}

// The second byte of a stored standing has these flags. Without flowFlag it has only the
// first numbers, and the others are zero.
const (
	awayFlag     = 1
	flowFlag     = 2
	firstNumbers = 18
)

func (s *standing) flags() byte {
	if s.away {
		return flowFlag | awayFlag
	}
	return flowFlag
}

// encode returns the stored form of a standing.
func (s *standing) encode() []byte {
	data := []byte{byte(s.claim.Resource), s.flags()}
	for _, number := range s.numbers() {
		data = binary.AppendVarint(data, *number)
	}
	return data
}

// decode reads a stored standing.
func (s *standing) decode(r *reader) error {
	kind, flags := r.byte(), r.byte()
	if r.failed || kind >= byte(resource.KindCount) {
		return errCorrupt
	}
	*s = standing{away: flags&awayFlag != 0}
	s.claim.Resource = resource.Kind(kind)
	for i, number := range s.numbers() {
		if i == firstNumbers && flags&flowFlag == 0 {
			break
		}
		*number = r.signed()
	}
	if r.failed {
		return errCorrupt
	}
	return nil
}

// restore opens an account with a stored standing.
func (a *account) restore(data []byte) error {
	var s standing
	if err := s.decode(&reader{data: data}); err != nil {
		return err
	}
	a.open, a.stored, a.credit = true, data, s.credit
	a.stand(s.claim, s.got, s.away)
	return nil
}
