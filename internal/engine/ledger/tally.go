package ledger

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"
)

// form is how the lines of a tally are compared, added and stored.
type form[K comparable, V any] struct {
	name    string // of the kind, in the store
	compare func(a, b K) int
	add     func(into, from *V)
	encode  func(data []byte, k *K, v *V) []byte
	decode  func(r *reader) (K, V)
}

// Tally sums up lines of one kind by tree and by hour, day and month of UTC. A row has all
// lines of a tree and a period, so that few rows are stored.
type Tally[K comparable, V any] struct {
	form[K, V]
	trees map[string]*treeTally[K, V]
}

// treeTally is the tally of a tree. Hours go into days and months when they end.
type treeTally[K comparable, V any] struct {
	hour, day, month page[K, V]
	ended            []TallyRow // periods that have ended since the last flush
}

// page has the lines of a period.
type page[K comparable, V any] struct {
	start int64
	lines map[K]*V
	dirty bool // it differs from what was flushed
}

// TallyRow is what is stored of a tree for a period.
type TallyRow struct {
	Kind, Tree string
	Level      Level
	Start      time.Time
	Data       []byte
}

func newTally[K comparable, V any](f form[K, V]) *Tally[K, V] {
	return &Tally[K, V]{form: f, trees: map[string]*treeTally[K, V]{}}
}

// line returns a line of the hour that contains now, for the caller to change.
func (t *Tally[K, V]) line(now time.Time, tree string, key K) *V {
	of := t.trees[tree]
	if of == nil {
		of = &treeTally[K, V]{}
		t.trees[tree] = of
	}
	t.turn(tree, of, now.UnixMicro())
	if of.hour.lines == nil {
		of.hour.lines = map[K]*V{}
	}
	of.hour.dirty = true
	v := of.hour.lines[key]
	if v == nil {
		v = new(V)
		of.hour.lines[key] = v
	}
	return v
}

// turn starts another hour if the last one has ended.
func (t *Tally[K, V]) turn(tree string, of *treeTally[K, V], now int64) {
	hour := Hour.startOf(now)
	if hour <= of.hour.start {
		return
	}
	if len(of.hour.lines) > 0 {
		t.close(tree, of, Hour, &of.hour)
		t.roll(tree, of, Day, &of.day)
		t.roll(tree, of, Month, &of.month)
	}
	of.hour = page[K, V]{start: hour}
}

func (t *Tally[K, V]) close(tree string, of *treeTally[K, V], level Level, p *page[K, V]) {
	if p.dirty {
		of.ended = append(of.ended, t.row(tree, level, p))
		p.dirty = false
	}
}

// roll adds the hour that has ended to a longer period.
func (t *Tally[K, V]) roll(tree string, of *treeTally[K, V], level Level, into *page[K, V]) {
	if start := level.startOf(of.hour.start); into.start != start {
		t.close(tree, of, level, into)
		*into = page[K, V]{start: start, lines: map[K]*V{}}
	}
	t.sum(into.lines, of.hour.lines)
	into.dirty = true
}

func (t *Tally[K, V]) sum(into, from map[K]*V) {
	for key, v := range from {
		if into[key] == nil {
			into[key] = new(V)
		}
		t.add(into[key], v)
	}
}

func (t *Tally[K, V]) row(tree string, level Level, p *page[K, V]) TallyRow {
	data := binary.AppendUvarint(nil, uint64(len(p.lines)))
	for _, key := range slices.SortedFunc(maps.Keys(p.lines), t.compare) {
		data = t.encode(data, &key, p.lines[key])
	}
	return TallyRow{Kind: t.name, Tree: tree, Level: level, Start: micros(p.start), Data: data}
}

// Flush returns the rows that have changed since the last flush, in the order of trees.
func (t *Tally[K, V]) Flush(now time.Time) (rows []TallyRow) {
	for _, tree := range slices.Sorted(maps.Keys(t.trees)) {
		of := t.trees[tree]
		t.turn(tree, of, now.UnixMicro())
		rows = append(rows, of.ended...)
		of.ended = nil
		for _, p := range []struct {
			*page[K, V]
			level Level
		}{{&of.hour, Hour}, {&of.day, Day}, {&of.month, Month}} {
			if p.dirty {
				rows = append(rows, t.row(tree, p.level, p.page))
				p.dirty = false
			}
		}
	}
	return rows
}

// Unflushed returns the hours that stored rows may not have yet. They replace stored rows
// of the same trees and times.
func (t *Tally[K, V]) Unflushed() (rows []TallyRow) {
	for _, tree := range slices.Sorted(maps.Keys(t.trees)) {
		of := t.trees[tree]
		for _, row := range of.ended {
			if row.Level == Hour {
				rows = append(rows, row)
			}
		}
		if len(of.hour.lines) > 0 {
			rows = append(rows, t.row(tree, Hour, &of.hour))
		}
	}
	return rows
}

// Restore continues with stored rows: those of the hour, day and month that contain the
// last flush. It ignores others.
func (t *Tally[K, V]) Restore(rows []TallyRow, flushed time.Time) error {
	at := flushed.UnixMicro()
	for i := range rows {
		row := &rows[i]
		if row.Kind != t.name || row.Start.UnixMicro() != row.Level.startOf(at) {
			continue
		}
		lines, err := t.Lines(row)
		if err != nil {
			return err
		}
		of := t.trees[row.Tree]
		if of == nil {
			of = &treeTally[K, V]{}
			t.trees[row.Tree] = of
		}
		switch p := (page[K, V]{start: row.Start.UnixMicro(), lines: lines}); row.Level {
		case Hour:
			of.hour = p
		case Day:
			of.day = p
		case Month:
			of.month = p
		}
	}
	return nil
}

// Lines reads the lines of a row.
func (t *Tally[K, V]) Lines(row *TallyRow) (map[K]*V, error) {
	r := reader{data: row.Data}
	count := r.number()
	lines := map[K]*V{}
	for range count {
		key, v := t.decode(&r)
		if r.failed {
			break
		}
		lines[key] = &v
	}
	if r.failed || len(r.data) > 0 || uint64(len(lines)) != count {
		return nil, fmt.Errorf("%s of tree %s at %s: %w", t.name, row.Tree, row.Start.Format(time.RFC3339), errCorrupt)
	}
	return lines, nil
}

// Total adds up the lines of rows, in the order of their keys. Each period must be in the
// rows once.
func (t *Tally[K, V]) Total(rows []TallyRow) (keys []K, lines map[K]*V, err error) {
	lines = map[K]*V{}
	for i := range rows {
		if rows[i].Kind != t.name {
			continue
		}
		of, err := t.Lines(&rows[i])
		if err != nil {
			return nil, nil, err
		}
		t.sum(lines, of)
	}
	return slices.SortedFunc(maps.Keys(lines), t.compare), lines, nil
}

// text reads a text.
func (r *reader) text() string {
	n := r.number()
	if n > uint64(len(r.data)) {
		r.failed = true
		return ""
	}
	text := string(r.data[:n])
	r.data = r.data[n:]
	return text
}

func appendText(data []byte, text string) []byte {
	return append(binary.AppendUvarint(data, uint64(len(text))), text...)
}
