package storetest

import (
	"fmt"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/store/history"
)

// later is the current time of the retention cases, long after the rows.
var later = noon.Add(1000 * time.Hour)

func (f *fixture) retain(policy store.Policy, now time.Time) store.Removed {
	f.Helper()
	removed, err := f.s.Retain(f.ctx, f.lease, policy, now)
	f.ok(err)
	return removed
}

// archive puts finished operations with a job and output each: 1 to 6, the odd ones bob's. Operation 7
// still runs.
func archive(f *fixture) {
	var rows store.Rows
	for n := int32(1); n <= 7; n++ {
		o := operation(n, finished(int(n)*100))
		if n%2 == 1 {
			o.User = "bob"
		}
		if n == 7 {
			o = operation(n)
		}
		rows.Operations = append(rows.Operations, o)
		rows.OperationSpecs = append(rows.OperationSpecs, store.OperationSpec{Operation: n, Provided: []byte("{}")})
		rows.Jobs = append(rows.Jobs, job(uint64(n), n, 1, func(j *store.Job) { j.FinishTime = at(int(n) * 100) }))
		rows.JobOutputs = append(rows.JobOutputs, store.JobOutput{Job: uint64(n), Kind: "stderr", Operation: n, Written: at(int(n) * 100), Data: []byte("x")})
	}
	f.put(rows)
}

func (f *fixture) left() []int32 {
	f.Helper()
	list, err := f.s.Operations(f.ctx, store.OperationFilter{})
	f.ok(err)
	return numbers(list.Operations)
}

var retentionChecks = []check{
	{"no policy removes nothing that has not expired", func(f *fixture) {
		f.put(everything())
		archive(f.another())
		f.same(f.retain(store.Policy{}, noon), store.Removed{})
		f.same(f.load().Rows, everything())
	}},
	{"old operations go with all that belongs to them", func(f *fixture) {
		archive(f)
		removed := f.retain(store.Policy{OperationAge: time.Hour}, at(3600+350))
		f.same(removed, store.Removed{Operations: 3, Jobs: 3, Outputs: 3})
		f.same(f.left(), []int32{7, 6, 5, 4})
		_, err := f.s.OperationSpec(f.ctx, 3)
		f.wants(err, store.ErrNotFound)
		_, err = f.s.Job(f.ctx, 3)
		f.wants(err, store.ErrNotFound)
		_, err = f.s.JobOutput(f.ctx, 3, "stderr")
		f.wants(err, store.ErrNotFound)
		_, err = f.s.JobOutput(f.ctx, 4, "stderr")
		f.ok(err)
	}},
	{"a user keeps the last operations", func(f *fixture) {
		archive(f)
		f.same(f.retain(store.Policy{OperationsPerUser: 1}, later).Operations, int64(4))
		f.same(f.left(), []int32{7, 6, 5})
	}},
	{"the archive keeps the last operations", func(f *fixture) {
		archive(f)
		f.same(f.retain(store.Policy{Operations: 2}, later).Operations, int64(4))
		f.same(f.left(), []int32{7, 6, 5})
	}},
	{"an operation that runs is never removed", func(f *fixture) {
		archive(f)
		f.retain(store.Policy{OperationAge: 1, OperationsPerUser: 1, Operations: 1}, later)
		f.same(f.left(), []int32{7})
		f.same(jobNumbers(f.load().Rows.Jobs), []uint64{7})
	}},
	{"old jobs go unless a controller has to replay them", func(f *fixture) {
		f.put(store.Rows{
			Operations:          []store.Operation{operation(1), operation(2, finished(9)), operation(3)},
			ControllerSnapshots: []store.ControllerSnapshot{{Operation: 1, Position: 1}},
			Jobs:                []store.Job{job(11, 1, 1), job(12, 1, 2), job(13, 1, 0), job(21, 2, 1), job(31, 3, 1)},
			JobOutputs:          []store.JobOutput{{Job: 11, Kind: "stderr", Operation: 1, Written: at(1)}, {Job: 12, Kind: "stderr", Operation: 1, Written: at(1)}},
		})
		f.same(f.retain(store.Policy{JobAge: time.Hour}, later), store.Removed{Jobs: 2, Outputs: 1})
		f.same(jobNumbers(f.load().Rows.Jobs), []uint64{13, 12, 31})
	}},
	{"young jobs stay", func(f *fixture) {
		archive(f)
		f.same(f.retain(store.Policy{JobAge: time.Hour}, at(3600)), store.Removed{})
	}},
	{"old output goes alone", func(f *fixture) {
		archive(f)
		f.same(f.retain(store.Policy{OutputAge: time.Hour}, at(3600+250)), store.Removed{Outputs: 2})
		_, err := f.s.Job(f.ctx, 1)
		f.ok(err)
	}},
	{"the log is limited by age", func(f *fixture) {
		logGallery(f)
		f.same(f.retain(store.Policy{EventAge: time.Hour}, at(3600+3)), store.Removed{Events: 2})
	}},
	{"the log is limited by count, and numbers go on", func(f *fixture) {
		logGallery(f)
		f.same(f.retain(store.Policy{Events: 2}, noon), store.Removed{Events: 3})
		f.same(f.put(store.Rows{Events: []store.Event{{Type: "t"}}}).LastEvent, int64(6))
		events, _, err := f.s.Events(f.ctx, store.EventFilter{})
		f.ok(err)
		f.same(len(events), 3)
	}},
	{"the audit is limited by age and count", func(f *fixture) {
		var rows store.Rows
		for i := range 10 {
			rows.Audit = append(rows.Audit, store.AuditRecord{Time: at(i)})
		}
		f.put(rows)
		f.same(f.retain(store.Policy{AuditAge: time.Hour}, at(3600+4)), store.Removed{Audit: 4})
		f.same(f.retain(store.Policy{AuditRecords: 5}, noon), store.Removed{Audit: 1})
	}},
	{"mutations go when they expire", func(f *fixture) {
		f.put(store.Rows{Mutations: []store.Mutation{{ID: "a", Expires: at(1)}, {ID: "b", Expires: at(3)}}})
		f.same(f.retain(store.Policy{}, at(2)), store.Removed{Mutations: 1})
		_, err := f.s.Mutation(f.ctx, "b")
		f.ok(err)
	}},
	{"uses of contents go with their operation, or when they expire", func(f *fixture) {
		archive(f)
		f.put(store.Rows{ContentUses: []store.ContentUse{
			{Content: "a", Holder: "operation:1", User: "ann", Size: 5, Operation: 1},
			{Content: "a", Holder: "path://home/a", User: "ann", Size: 5},
			{Content: "b", Holder: "job:9", User: "ann", Size: 7, Operation: 1, Job: 1<<63 + 9, Document: []byte("{}")},
			{Content: "c", Holder: "upload:ann", User: "ann", Size: 1, Expires: at(2)},
			{Content: "d", Holder: "upload:bob", User: "bob", Size: 2, Expires: at(4)},
		}})
		usage := func(user string, want int64) {
			f.Helper()
			used, err := f.s.ContentUsage(f.ctx, user)
			f.ok(err)
			f.same(used, want)
		}
		usage("ann", 13)
		usage("nobody", 0)
		of, err := f.s.OperationContents(f.ctx, 1, 1<<63+9)
		f.ok(err)
		f.same(of, []store.ContentUse{{Content: "b", Holder: "job:9", User: "ann", Size: 7, Operation: 1, Job: 1<<63 + 9, Document: []byte("{}")}})
		f.same(f.retain(store.Policy{}, at(3)), store.Removed{ContentUses: 1})
		removed := f.retain(store.Policy{OperationAge: time.Hour}, at(3600+150))
		f.same(removed, store.Removed{Operations: 1, Jobs: 1, Outputs: 1, ContentUses: 3})
		usage("ann", 5)
		left, err := f.s.Contents(f.ctx)
		f.ok(err)
		f.same(left, []string{"a"})
		uses, err := f.s.ContentUses(f.ctx, "ann", "a")
		f.ok(err)
		f.same(uses, []store.ContentUse{{Content: "a", Holder: "path://home/a", User: "ann", Size: 5}})
	}},
	{"history is limited by level", func(f *fixture) {
		var rows store.Rows
		for _, level := range history.Levels {
			for i := range 4 {
				start := level.BlockStart(noon).Add(-time.Duration(i) * level.Keep())
				rows.HistoryBlocks = append(rows.HistoryBlocks, store.HistoryBlock{Tree: "t", Pool: "p", Level: int32(level.Step() / time.Second), Start: start})
			}
		}
		f.put(rows)
		f.same(f.retain(store.Policy{}, noon).History, int64(6))
		f.same(f.retain(store.Policy{HistoryAge: map[history.Level]time.Duration{history.Hours: time.Hour}}, noon).History, int64(1))
	}},
	{"hours of the ledger are kept for 40 days, days for 400, months permanently", func(f *fixture) {
		var rows store.Rows
		day := 24 * time.Hour
		for _, level := range []int32{0, 3600, 86400, 30 * 86400} {
			for _, age := range []time.Duration{0, 39 * day, 41 * day, 399 * day, 401 * day} {
				row := store.LedgerRow{Tree: "t", Pool: "p", Level: level, Start: noon.Add(-age), Data: []byte{1}}
				if level == 0 {
					row.Start = time.Time{}
				}
				rows.LedgerRows = append(rows.LedgerRows, row)
				if level > 0 {
					rows.LedgerTallies = append(rows.LedgerTallies, store.LedgerTally{Kind: "usage", Tree: "t", Level: level, Start: row.Start, Data: []byte{1}})
				}
			}
		}
		for number, age := range []time.Duration{71 * time.Hour, 73 * time.Hour} {
			rows.LedgerFacts = append(rows.LedgerFacts, store.LedgerFacts{Epoch: 1, Number: int64(number), Start: noon.Add(-age - time.Second), Finish: noon.Add(-age), Data: []byte{1}})
		}
		f.put(rows)
		f.same(f.retain(store.Policy{}, noon), store.Removed{Ledger: 2*(3+1) + 1})
		f.same(f.retain(store.Policy{LedgerAge: map[int32]time.Duration{3600: day}, FactsAge: day}, noon), store.Removed{Ledger: 2 + 1})
		for level, count := range map[int32]int{0: 1, 3600: 1, 86400: 4, 30 * 86400: 5} {
			found, err := f.s.Ledger(f.ctx, store.LedgerQuery{Level: level, From: noon.Add(-1000 * day), To: at(1)})
			f.ok(err)
			if len(found) != count {
				f.Errorf("level %d: %d rows", level, len(found))
			}
		}
	}},
	{"forecasts are kept for 90 days", func(f *fixture) {
		day := 24 * time.Hour
		for i, age := range []time.Duration{0, 89 * day, 91 * day} {
			f.put(store.Rows{Forecasts: []store.Forecast{{Operation: int32(i), Made: noon.Add(-age)}}})
		}
		f.same(f.retain(store.Policy{}, noon), store.Removed{Forecasts: 1})
		f.same(f.retain(store.Policy{ForecastAge: day}, noon), store.Removed{Forecasts: 1})
	}},
	{"what is much is removed in bounded transactions", func(f *fixture) {
		var rows store.Rows
		rows.Operations = []store.Operation{operation(1, finished(9))}
		for i := range 120 {
			rows.Events = append(rows.Events, store.Event{Time: at(i), Type: "t"})
			rows.Jobs = append(rows.Jobs, job(uint64(i+1), 1, int64(i+1)))
		}
		f.put(rows)
		f.same(f.retain(store.Policy{EventAge: time.Hour, OperationAge: time.Hour, BatchRows: 7}, later), store.Removed{Events: 120, Jobs: 120, Operations: 1})
	}},
	{"tombstones go and readers are told", func(f *fixture) {
		f.put(everything())
		f.delete(keys())
		for i := range 5 {
			f.put(store.Rows{Users: []store.User{{Name: fmt.Sprint("u", i)}}})
		}
		removed := f.retain(store.Policy{Tombstones: 2}, noon)
		if removed.Tombstones == 0 {
			f.Error("none was removed")
		}
		_, err := f.s.Changes(f.ctx, 1)
		f.wants(err, store.ErrTooOld)
		_, err = f.s.Changes(f.ctx, 5)
		f.ok(err)
	}},
}

// another returns a fixture with its own database.
func (f *fixture) another() *fixture {
	f.Helper()
	return newFixture(f.T, f.fresh)
}
