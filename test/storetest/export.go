package storetest

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/store/history"
)

// dump exports a store.
func (f *fixture) dump(s *store.Store) []byte {
	f.Helper()
	var out bytes.Buffer
	f.ok(s.Export(f.ctx, &out))
	return out.Bytes()
}

// plain decompresses an export.
func (f *fixture) plain(dump []byte) string {
	f.Helper()
	r, err := gzip.NewReader(bytes.NewReader(dump))
	f.ok(err)
	text, err := io.ReadAll(r)
	f.ok(err)
	return string(text)
}

// pack is the inverse of plain.
func (f *fixture) pack(text string) []byte {
	f.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write([]byte(text))
	f.ok(err)
	f.ok(w.Close())
	return out.Bytes()
}

// rich fills a store with rows of all kinds, also those that are not loaded.
func (f *fixture) rich() {
	f.Helper()
	f.put(everything())
	archive(f.withoutNumber7())
	logGallery(f)
	f.put(store.Rows{
		Audit:          []store.AuditRecord{{Time: at(1), User: "ann"}},
		HistorySeries:  []store.HistorySeries{{Number: 0, Resource: "cpu", Name: "usage"}},
		HistoryBlocks:  []store.HistoryBlock{{Tree: "main", Pool: "prod", Level: 1, Start: at(0), Data: []byte{1, 2, 3}}},
		LedgerRows:     []store.LedgerRow{{Tree: "main", Pool: "prod", Data: []byte{9}}, {Tree: "main", Pool: "prod", Level: 3600, Start: at(0), Data: []byte{1, 2}}},
		LedgerTallies:  []store.LedgerTally{{Kind: "usage", Tree: "main", Level: 3600, Start: at(0), Data: []byte{7}}},
		LedgerFacts:    []store.LedgerFacts{{Epoch: 3, Number: 1, Start: at(0), Finish: at(1), Gap: true, Data: []byte{8}}},
		Forecasts:      []store.Forecast{{Operation: 1, Target: 1, Made: at(1), Tree: "main", Pool: "prod", Settled: at(2), Data: []byte("{}")}},
		ForecastModels: []store.ForecastModel{{Name: "main", Updated: at(1), Data: []byte{1}}},
	})
}

// withoutNumber7 makes room for the archive's own operation 7.
func (f *fixture) withoutNumber7() *fixture {
	f.Helper()
	f.delete(store.Rows{Operations: []store.Operation{{Number: 7}}})
	return f
}

// empty returns a store that has had no leader.
func (f *fixture) empty() *store.Store {
	f.Helper()
	return f.open(f.fresh(f.T))
}

var exportChecks = []check{
	{"an import has everything that was exported", func(f *fixture) {
		f.rich()
		exported := f.dump(f.s)
		other := f.empty()
		f.ok(other.Import(f.ctx, bytes.NewReader(exported)))
		_, want, _ := strings.Cut(f.plain(exported), "\n")
		_, got, _ := strings.Cut(f.plain(f.dump(other)), "\n")
		wantRows, _, _ := strings.Cut(want, `{"rows"`)
		gotRows, _, _ := strings.Cut(got, `{"rows"`)
		f.same(gotRows, wantRows)
	}},
	{"after an import revisions, numbers and epochs go on", func(f *fixture) {
		f.rich()
		state := f.load()
		other := f.empty()
		f.ok(other.Import(f.ctx, bytes.NewReader(f.dump(f.s))))
		lease := f.acquire(other, "second")
		if clock := store.ClockEpoch(time.Now().Add(-time.Hour)); lease.Epoch <= f.lease.Epoch || lease.Epoch <= clock || lease.Epoch >= 1<<24 {
			f.Errorf("epoch %d after %d and %d of the clock", lease.Epoch, f.lease.Epoch, clock)
		}
		imported, err := other.Load(f.ctx)
		f.ok(err)
		f.same(imported, state)
		receipt, err := other.Commit(f.ctx, lease, &store.Batch{Put: store.Rows{Events: []store.Event{{Type: "t"}}}})
		f.ok(err)
		f.same(receipt.Revision, state.Revision+1)
		f.same(receipt.LastEvent, state.LastEvent+1)
		_, err = other.Changes(f.ctx, 1)
		f.wants(err, store.ErrTooOld)
	}},
	{"a store that was written to is not overwritten", func(f *fixture) {
		f.put(everything())
		dump := f.dump(f.s)
		f.wants(f.s.Import(f.ctx, bytes.NewReader(dump)), store.ErrNotEmpty)
	}},
	{"a store that somebody leads is not filled", func(f *fixture) {
		f.wants(f.s.Import(f.ctx, bytes.NewReader(f.dump(f.s))), store.ErrHeld)
	}},
	{"an export that is cut off is refused whole", func(f *fixture) {
		f.rich()
		dump := f.dump(f.s)
		other := f.empty()
		for _, length := range []int{0, 5, len(dump) / 2, len(dump) - 1} {
			f.wants(other.Import(f.ctx, bytes.NewReader(dump[:length])), store.ErrCorrupt)
		}
		lines := strings.SplitAfter(f.plain(dump), "\n")
		f.wants(other.Import(f.ctx, bytes.NewReader(f.pack(strings.Join(lines[:len(lines)-2], "")))), store.ErrCorrupt)
		state, err := other.Load(f.ctx)
		f.ok(err)
		f.same(*state, store.State{})
	}},
	{"an export that was altered is refused whole", func(f *fixture) {
		f.rich()
		text := f.plain(f.dump(f.s))
		other := f.empty()
		for _, altered := range []string{
			strings.Replace(text, `"ann"`, `"eve"`, 1), text + "more\n",
			strings.Replace(text, `{"table":"pools"`, `{"table":"ponds"`, 1), strings.Replace(text, `"parent"`, `"patent"`, 1), "[]\n", "{}\n",
		} {
			f.wants(other.Import(f.ctx, bytes.NewReader(f.pack(altered))), store.ErrCorrupt)
		}
		state, err := other.Load(f.ctx)
		f.ok(err)
		f.same(*state, store.State{})
	}},
	{"an export of a newer version is refused", func(f *fixture) {
		text := f.plain(f.dump(f.s))
		newer := f.pack(strings.Replace(text, `"version":1`, `"version":99`, 1))
		f.wants(f.empty().Import(f.ctx, bytes.NewReader(newer)), store.ErrTooNew)
	}},
	{"an export is one state while commits go on", func(f *fixture) {
		// Every commit replaces ten users with the same value. An export must contain one value.
		write := func(value int) {
			var rows store.Rows
			for i := range 10 {
				rows.Users = append(rows.Users, store.User{Name: fmt.Sprint("u", i), Document: []byte(fmt.Sprint(value))})
			}
			f.put(rows)
		}
		write(0)
		stop := make(chan struct{})
		var group sync.WaitGroup
		group.Go(func() {
			for value := 1; ; value++ {
				select {
				case <-stop:
					return
				default:
					write(value)
				}
			}
		})
		for range 5 {
			other := f.empty()
			if err := other.Import(f.ctx, bytes.NewReader(f.dump(f.s))); err != nil {
				f.Error(err)
				break
			}
			state, err := other.Load(f.ctx)
			f.ok(err)
			for _, u := range state.Rows.Users {
				f.same(string(u.Document), string(state.Rows.Users[0].Document))
			}
		}
		close(stop)
		group.Wait()
	}},
}

// record fills a recorder with two pools: series 0 counts seconds, series 1 is constant.
func record(recorder *history.Recorder, from time.Time, seconds int) {
	for i := range seconds {
		now := from.Add(time.Duration(i) * time.Second)
		recorder.Record(now, "main", "prod", []float64{float64(now.Unix() % 100), 7})
		recorder.Record(now, "main", "test", []float64{1, 2})
	}
}

var historyChecks = []check{
	{"points of a pool come back by series", func(f *fixture) {
		recorder := history.NewRecorder()
		record(recorder, noon, 700)
		batch := &store.Batch{Put: store.Rows{HistorySeries: []store.HistorySeries{
			{Number: 0, Resource: "cpu", Name: "usage"}, {Number: 1, Resource: "cpu", Name: "guarantee"}, {Number: 2, Resource: "gpu", Name: "usage"},
		}}}
		batch.PutHistory(recorder.Flush(at(700)))
		f.commit(batch)
		lines, err := f.s.History(f.ctx, store.HistoryQuery{Tree: "main", Pool: "prod", Level: history.Seconds, Resource: "cpu", From: at(100), To: at(600)})
		f.ok(err)
		f.same(len(lines), 2)
		f.same(len(lines[0].Points), 500)
		f.same(lines[0].Points[0], history.Point{Time: at(100), Average: float64(at(100).Unix() % 100), Max: float64(at(100).Unix() % 100)})
		f.same(lines[1].Series.Name, "guarantee")
		lines, err = f.s.History(f.ctx, store.HistoryQuery{Tree: "main", Pool: "prod", Level: history.Minutes, Names: []string{"usage"}, From: noon, To: at(3600)})
		f.ok(err)
		f.same(len(lines), 1)
		f.same(len(lines[0].Points), 11)
	}},
	{"a pool without points has no lines", func(f *fixture) {
		lines, err := f.s.History(f.ctx, store.HistoryQuery{Tree: "main", Pool: "none", From: noon, To: at(10)})
		f.ok(err)
		f.same(len(lines), 0)
	}},
	{"a recorder continues after a restart", func(f *fixture) {
		save := func(recorder *history.Recorder, now time.Time) {
			batch := &store.Batch{Put: store.Rows{HistorySeries: []store.HistorySeries{{Number: 0, Resource: "cpu", Name: "usage"}}}}
			batch.PutHistory(recorder.Flush(now))
			f.commit(batch)
		}
		before := history.NewRecorder()
		record(before, noon, 90)
		save(before, at(90))
		after := history.NewRecorder()
		f.ok(f.s.RestoreHistory(f.ctx, after, at(90)))
		record(after, at(90), 100)
		save(after, at(190))
		lines, err := f.s.History(f.ctx, store.HistoryQuery{Tree: "main", Pool: "prod", From: noon, To: at(300)})
		f.ok(err)
		f.same(len(lines[0].Points), 190)
		lines, err = f.s.History(f.ctx, store.HistoryQuery{Tree: "main", Pool: "prod", Level: history.Minutes, From: noon, To: at(300)})
		f.ok(err)
		f.same(len(lines[0].Points), 3)
	}},
	{"rows of the ledger are replaced, removed, and selected by pool, level and time", func(f *fixture) {
		row := func(pool string, level int32, start time.Time, data byte) store.LedgerRow {
			return store.LedgerRow{Tree: "main", Pool: pool, Level: level, Start: start, Data: []byte{data}}
		}
		f.put(store.Rows{LedgerRows: []store.LedgerRow{
			row("prod", 0, time.Time{}, 1), row("prod", 3600, at(0), 2), row("prod", 3600, at(3600), 3), row("batch", 3600, at(0), 4), row("prod", 86400, at(0), 5),
		}})
		f.put(store.Rows{LedgerRows: []store.LedgerRow{row("prod", 3600, at(0), 6)}})
		query := func(q store.LedgerQuery, want ...store.LedgerRow) {
			f.Helper()
			rows, err := f.s.Ledger(f.ctx, q)
			f.ok(err)
			f.same(rows, want)
		}
		query(store.LedgerQuery{}, row("prod", 0, time.Time{}, 1))
		query(store.LedgerQuery{Level: 3600, From: at(0), To: at(3600)}, row("batch", 3600, at(0), 4), row("prod", 3600, at(0), 6))
		query(store.LedgerQuery{Tree: "main", Pool: "prod", Level: 3600, From: at(0), To: at(7200)}, row("prod", 3600, at(0), 6), row("prod", 3600, at(3600), 3))
		query(store.LedgerQuery{Tree: "other", Level: 3600, From: at(0), To: at(7200)})
		f.delete(store.Rows{LedgerRows: []store.LedgerRow{row("prod", 0, time.Time{}, 0)}})
		query(store.LedgerQuery{})
	}},
	{"tallies of the ledger are replaced, and selected by kind, tree, level and time", func(f *fixture) {
		row := func(kind, tree string, level int32, start time.Time, data byte) store.LedgerTally {
			return store.LedgerTally{Kind: kind, Tree: tree, Level: level, Start: start, Data: []byte{data}}
		}
		f.put(store.Rows{LedgerTallies: []store.LedgerTally{
			row("usage", "main", 3600, at(0), 1), row("usage", "main", 3600, at(3600), 2), row("usage", "gpu", 3600, at(0), 3), row("usage", "main", 86400, at(0), 4), row("preemptions", "main", 3600, at(0), 5),
		}})
		f.put(store.Rows{LedgerTallies: []store.LedgerTally{row("usage", "main", 3600, at(0), 6)}})
		query := func(q store.TallyQuery, want ...store.LedgerTally) {
			f.Helper()
			rows, err := f.s.Tallies(f.ctx, q)
			f.ok(err)
			f.same(rows, want)
		}
		query(store.TallyQuery{Level: 3600, From: at(0), To: at(3600)}, row("preemptions", "main", 3600, at(0), 5), row("usage", "gpu", 3600, at(0), 3), row("usage", "main", 3600, at(0), 6))
		query(store.TallyQuery{Kind: "usage", Tree: "main", Level: 3600, From: at(0), To: at(7200)}, row("usage", "main", 3600, at(0), 6), row("usage", "main", 3600, at(3600), 2))
		query(store.TallyQuery{Kind: "usage", Level: 86400, From: at(0), To: at(1)}, row("usage", "main", 86400, at(0), 4))
	}},
	{"the log of the ledger is selected by time, in the order of flushes", func(f *fixture) {
		row := func(epoch, number int64, start, finish time.Time) store.LedgerFacts {
			return store.LedgerFacts{Epoch: epoch, Number: number, Start: start, Finish: finish, Data: []byte{byte(number)}}
		}
		a, b, c := row(1, 1, at(0), at(10)), row(1, 2, at(10), at(20)), row(2, 1, at(20), at(30))
		f.put(store.Rows{LedgerFacts: []store.LedgerFacts{c, a, b}})
		query := func(from, to time.Time, want ...store.LedgerFacts) {
			f.Helper()
			rows, err := f.s.LedgerFacts(f.ctx, from, to)
			f.ok(err)
			f.same(rows, want)
		}
		query(at(0), at(100), a, b, c)
		query(at(10), at(20), b)
		query(at(30), at(100))
		last, err := f.s.LastLedgerFacts(f.ctx)
		f.ok(err)
		f.same(last, at(30))
	}},
	{"forecasts are selected by pool, time and whether their outcomes are known", func(f *fixture) {
		row := func(number, target int32, pool string, made, settled time.Time) store.Forecast {
			return store.Forecast{Operation: number, Target: target, Made: made, Tree: "main", Pool: pool, Settled: settled, Data: []byte("{}")}
		}
		a, b, c := row(1, 0, "prod", at(1), time.Time{}), row(1, 1, "prod", at(1), at(9)), row(2, 0, "batch", at(2), at(3))
		f.put(store.Rows{Forecasts: []store.Forecast{a, b, c}})
		query := func(q store.ForecastQuery, want ...store.Forecast) {
			f.Helper()
			rows, err := f.s.Forecasts(f.ctx, q)
			f.ok(err)
			f.same(rows, want)
		}
		query(store.ForecastQuery{}, c, a, b)
		query(store.ForecastQuery{Open: true}, a)
		query(store.ForecastQuery{Settled: true, Limit: 1}, c)
		query(store.ForecastQuery{Tree: "main", Pool: "prod", From: at(1), To: at(2)}, a, b)
		a.Settled = at(5)
		f.put(store.Rows{Forecasts: []store.Forecast{a}, ForecastModels: []store.ForecastModel{{Name: "m", Updated: at(1), Data: []byte{7}}}})
		query(store.ForecastQuery{Open: true})
		model, err := f.s.ForecastModel(f.ctx, "m")
		f.ok(err)
		f.same(model, store.ForecastModel{Name: "m", Updated: at(1), Data: []byte{7}})
		model, err = f.s.ForecastModel(f.ctx, "none")
		f.ok(err)
		f.same(model, store.ForecastModel{})
	}},
	{"a damaged block is an error", func(f *fixture) {
		f.put(store.Rows{
			HistorySeries: []store.HistorySeries{{Number: 0, Resource: "cpu", Name: "usage"}},
			HistoryBlocks: []store.HistoryBlock{{Tree: "t", Pool: "p", Level: 1, Start: history.Seconds.BlockStart(noon), Data: []byte("junk")}},
		})
		if _, err := f.s.History(f.ctx, store.HistoryQuery{Tree: "t", Pool: "p", From: noon, To: at(10)}); err == nil {
			f.Error("it was read")
		}
	}},
}

var concurrencyChecks = []check{
	{"readers see whole commits while a leader writes", func(f *fixture) {
		// Every commit sets all rows to the value of its revision.
		write := func(value int) {
			var rows store.Rows
			for i := range 20 {
				rows.Settings = append(rows.Settings, store.Setting{Name: fmt.Sprint("s", i), Document: []byte(fmt.Sprint(value))})
			}
			rows.Pools = []store.Pool{{Tree: "t", Name: "p", Parent: fmt.Sprint(value)}}
			if receipt := f.put(rows); receipt.Revision != int64(value) {
				f.Errorf("revision %d for value %d", receipt.Revision, value)
			}
		}
		write(1)
		reader := f.open(f.url)
		stop := make(chan struct{})
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				for last := int64(0); ; {
					select {
					case <-stop:
						return
					default:
					}
					state, err := reader.Load(f.ctx)
					if err != nil {
						f.Error(err)
						return
					}
					if state.Revision < last {
						f.Errorf("revision %d after %d", state.Revision, last)
					}
					last = state.Revision
					want := fmt.Sprint(state.Revision)
					for _, s := range state.Rows.Settings {
						if string(s.Document) != want {
							f.Errorf("%s is %s at revision %s", s.Name, s.Document, want)
						}
					}
					if state.Rows.Pools[0].Parent != want {
						f.Errorf("the pool has %s at revision %s", state.Rows.Pools[0].Parent, want)
					}
				}
			})
		}
		for value := 2; value <= 60; value++ {
			write(value)
		}
		close(stop)
		group.Wait()
	}},
	{"commits from many goroutines are all there", func(f *fixture) {
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				for n := range 10 {
					_, err := f.s.Commit(f.ctx, f.lease, &store.Batch{Put: store.Rows{
						Users: []store.User{{Name: fmt.Sprintf("%d-%d", i, n)}}, Events: []store.Event{{Type: "t"}, {Type: "t"}},
					}})
					if err != nil {
						f.Error(err)
					}
				}
			})
		}
		group.Wait()
		state := f.load()
		f.same(len(state.Rows.Users), 80)
		f.same(state.Revision, int64(80))
		f.same(state.LastEvent, int64(160))
	}},
	{"a commit with a cancelled context does not count", func(f *fixture) {
		ctx, cancel := context.WithCancel(f.ctx)
		cancel()
		_, err := f.s.Commit(ctx, f.lease, &store.Batch{Put: everything()})
		if !errors.Is(err, context.Canceled) {
			f.Errorf("the error is %v", err)
		}
		f.same(f.load().Revision, int64(0))
		f.put(everything())
	}},
	{"retention goes on beside commits", func(f *fixture) {
		var rows store.Rows
		for i := range 300 {
			rows.Events = append(rows.Events, store.Event{Time: at(i), Type: "t"})
		}
		f.put(rows)
		var group sync.WaitGroup
		group.Go(func() {
			removed, err := f.s.Retain(f.ctx, f.lease, store.Policy{EventAge: time.Hour, BatchRows: 10}, later)
			if err != nil || removed.Events != 300 {
				f.Errorf("%v removed, %v", removed, err)
			}
		})
		for i := range 30 {
			f.put(store.Rows{Users: []store.User{{Name: fmt.Sprint("u", i)}}})
		}
		group.Wait()
		f.same(f.load().Revision, int64(31))
	}},
	{"the store says that it answers and how large it is", func(f *fixture) {
		f.ok(f.s.Ping(f.ctx))
		size, err := f.s.Size(f.ctx)
		f.ok(err)
		if size <= 0 {
			f.Errorf("%d bytes", size)
		}
	}},
}
