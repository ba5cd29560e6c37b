package storetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirhq/weir/internal/control/store"
)

// gallery puts operations that differ in everything that filters examine.
func gallery(f *fixture) {
	f.put(store.Rows{Operations: []store.Operation{
		operation(1, func(o *store.Operation) { o.Title = "Daily REPORT 100%" }),
		operation(2, finished(20), func(o *store.Operation) { o.User, o.HasFailedJobs = "bob", true }),
		operation(3, func(o *store.Operation) {
			o.Type, o.Pools = "map", []store.TreePool{{Tree: "gpu", Pool: "Prod"}, {Tree: "main", Pool: "prod"}}
		}),
		operation(4, func(o *store.Operation) { o.State, o.Pools = "pending", []store.TreePool{{Tree: "gpu", Pool: "prod"}} }),
		operation(5, finished(50), func(o *store.Operation) { o.State, o.Filter, o.Pools = "failed", "Secret_word", nil }),
		operation(6, func(o *store.Operation) { o.User, o.StartTime = "bob", at(5) }), // at the same time as 5
	}})
}

// lists returns a check of a filter against the gallery.
func lists(name string, filter store.OperationFilter, want ...int32) check {
	return check{name, func(f *fixture) {
		gallery(f)
		list, err := f.s.Operations(f.ctx, filter)
		f.ok(err)
		f.same(numbers(list.Operations), want)
		f.same(list.Incomplete, false)
		if filter.Cursor.IsZero() {
			counts, err := f.s.CountOperations(f.ctx, filter)
			f.ok(err)
			f.same(counts.Total, int64(len(want)))
		}
	}}
}

func yes() *bool { b := true; return &b }
func no() *bool  { return new(bool) }

var listChecks = []check{
	lists("all, newest first", store.OperationFilter{}, 6, 5, 4, 3, 2, 1),
	lists("by state", store.OperationFilter{State: "pending"}, 4),
	lists("by type", store.OperationFilter{Type: "map"}, 3),
	lists("by user", store.OperationFilter{User: "bob"}, 6, 2),
	lists("by tree", store.OperationFilter{Tree: "gpu"}, 4, 3),
	lists("by pool in any tree, in its own case", store.OperationFilter{Pool: "prod"}, 6, 4, 3, 2, 1),
	lists("by pool in a tree", store.OperationFilter{Tree: "gpu", Pool: "prod"}, 4),
	lists("by a part of a pool's name: none", store.OperationFilter{Pool: "pro"}),
	lists("with failed jobs", store.OperationFilter{WithFailedJobs: yes()}, 2),
	lists("without failed jobs", store.OperationFilter{WithFailedJobs: no(), User: "bob"}, 6),
	lists("live", store.OperationFilter{Live: yes()}, 6, 4, 3, 1),
	lists("archived", store.OperationFilter{Live: no()}, 5, 2),
	lists("by a text in any case", store.OperationFilter{Text: "rePort"}, 1),
	lists("by a text with a percent sign", store.OperationFilter{Text: "100%"}, 1),
	lists("by a text with an underscore, which is no wildcard", store.OperationFilter{Text: "Daily_report"}),
	lists("by further words", store.OperationFilter{Text: "secret_w"}, 5),
	lists("by a text that is a pool", store.OperationFilter{Text: "prod", Live: no()}, 2),
	lists("by an id", store.OperationFilter{Text: operation(3).ID}, 3),
	lists("by several at once", store.OperationFilter{User: "ann", State: "running", Pool: "prod", Type: "vanilla"}, 1),
	lists("between two times, the end left out", store.OperationFilter{From: at(2), To: at(4)}, 3, 2),
	lists("from a cursor to the past", store.OperationFilter{Cursor: at(4)}, 3, 2, 1),
	lists("from a cursor to the future, still newest first", store.OperationFilter{Cursor: at(3), Direction: store.Future}, 6, 5, 4),
	lists("from a cursor with a number, among those that started together", store.OperationFilter{Cursor: at(5), CursorNumber: 6}, 5, 4, 3, 2, 1),
	lists("from a cursor with a number to the future", store.OperationFilter{Cursor: at(5), CursorNumber: 5, Direction: store.Future}, 6),
	{"a limit cuts the list and says so", func(f *fixture) {
		gallery(f)
		list, err := f.s.Operations(f.ctx, store.OperationFilter{Limit: 2})
		f.ok(err)
		f.same(numbers(list.Operations), []int32{6, 5})
		f.same(list.Incomplete, true)
		list, err = f.s.Operations(f.ctx, store.OperationFilter{Limit: 2, Cursor: at(1), Direction: store.Future})
		f.ok(err)
		f.same(numbers(list.Operations), []int32{3, 2})
		f.same(list.Incomplete, true)
	}},
	{"a list has whole rows", func(f *fixture) {
		f.put(everything())
		list, err := f.s.Operations(f.ctx, store.OperationFilter{})
		f.ok(err)
		f.same(list.Operations, everything().Operations)
	}},
	{"choices are counted among what the filters before them leave", func(f *fixture) {
		gallery(f)
		counts, err := f.s.CountOperations(f.ctx, store.OperationFilter{})
		f.ok(err)
		f.same(counts, store.OperationCounts{
			Trees: map[string]int64{"main": 4, "gpu": 2}, Pools: map[string]int64{"prod": 5, "Prod": 1},
			Users: map[string]int64{"ann": 4, "bob": 2}, States: map[string]int64{"running": 3, "completed": 1, "pending": 1, "failed": 1},
			Types: map[string]int64{"vanilla": 5, "map": 1}, FailedJobs: 1, Total: 6,
		})
		counts, err = f.s.CountOperations(f.ctx, store.OperationFilter{Tree: "main", User: "ann", Type: "vanilla", WithFailedJobs: yes()})
		f.ok(err)
		f.same(counts, store.OperationCounts{
			Trees: map[string]int64{"main": 4, "gpu": 2}, Pools: map[string]int64{"prod": 4},
			Users: map[string]int64{"ann": 2, "bob": 2}, States: map[string]int64{"running": 2},
			Types: map[string]int64{"vanilla": 1, "map": 1}, FailedJobs: 0, Total: 0,
		})
		counts, err = f.s.CountOperations(f.ctx, store.OperationFilter{Text: "secret", From: at(4)})
		f.ok(err)
		f.same(counts.Total, int64(1))
		f.same(len(counts.Pools), 0)
	}},
	{"counts have every commit", func(f *fixture) {
		gallery(f)
		for number := range int32(3) {
			for _, filter := range []store.OperationFilter{{}, {Live: yes()}, {Text: "an"}} {
				before, err := f.s.CountOperations(f.ctx, filter)
				f.ok(err)
				again, err := f.s.CountOperations(f.ctx, filter)
				f.ok(err)
				f.same(again, before)
			}
			f.put(store.Rows{Operations: []store.Operation{operation(10 + number)}})
			after, err := f.s.CountOperations(f.ctx, store.OperationFilter{})
			f.ok(err)
			f.same(after.Total, int64(7+number))
		}
	}},
}

// jobGallery puts jobs of two operations that differ in everything that filters examine.
func jobGallery(f *fixture) {
	f.put(store.Rows{Jobs: []store.Job{
		job(1, 1, 0, func(j *store.Job) { j.StartTime = at(50) }),
		job(2, 1, 1, func(j *store.Job) { j.Task, j.StderrSize, j.StartTime, j.FinishTime = "reduce", 5, at(40), at(45) }),
		job(3, 1, 2, func(j *store.Job) {
			j.State, j.Node, j.StartTime, j.FinishTime = "failed", "node-2:9000", at(30), at(90)
		}),
		job(4, 1, 3, func(j *store.Job) { j.Type, j.Tree, j.StartTime, j.FinishTime = "partition", "gpu", at(20), at(60) }),
		job(5, 2, 1),
	}})
}

func listsJobs(name string, filter store.JobFilter, want ...uint64) check {
	return check{name, func(f *fixture) {
		jobGallery(f)
		if filter.Operation == 0 {
			filter.Operation = 1
		}
		list, err := f.s.Jobs(f.ctx, filter)
		f.ok(err)
		f.same(jobNumbers(list.Jobs), want)
		if filter.Limit == 0 {
			f.same(list.Total, int64(len(want)))
			f.same(list.Incomplete, false)
		}
	}}
}

var jobListChecks = []check{
	listsJobs("jobs of one operation, by number", store.JobFilter{}, 1, 2, 3, 4),
	listsJobs("jobs of another", store.JobFilter{Operation: 2}, 5),
	listsJobs("by state", store.JobFilter{State: "failed"}, 3),
	listsJobs("by type", store.JobFilter{Type: "partition"}, 4),
	listsJobs("by task", store.JobFilter{Task: "reduce"}, 2),
	listsJobs("by node", store.JobFilter{Node: "node-2:9000"}, 3),
	listsJobs("by tree", store.JobFilter{Tree: "gpu"}, 4),
	listsJobs("with stderr", store.JobFilter{WithStderr: yes()}, 2),
	listsJobs("without stderr", store.JobFilter{WithStderr: no()}, 1, 3, 4),
	listsJobs("finished", store.JobFilter{Finished: yes()}, 2, 3, 4),
	listsJobs("running", store.JobFilter{Finished: no()}, 1),
	listsJobs("between two times", store.JobFilter{From: at(30), To: at(50)}, 2, 3),
	listsJobs("ordered by start time", store.JobFilter{Sort: store.SortByStartTime}, 4, 3, 2, 1),
	listsJobs("ordered by start time, the other way", store.JobFilter{Sort: store.SortByStartTime, Reverse: true}, 1, 2, 3, 4),
	listsJobs("ordered by finish time", store.JobFilter{Sort: store.SortByFinishTime, Finished: yes()}, 2, 4, 3),
	listsJobs("ordered by duration", store.JobFilter{Sort: store.SortByDuration}, 2, 4, 3, 1),
	listsJobs("ordered by node, then by number", store.JobFilter{Sort: store.SortByNode}, 1, 2, 4, 3),
	listsJobs("a page", store.JobFilter{Limit: 2, Offset: 1}, 2, 3),
	{"states and types are counted without their own filter", func(f *fixture) {
		jobGallery(f)
		list, err := f.s.Jobs(f.ctx, store.JobFilter{Operation: 1, State: "completed", Limit: 1})
		f.ok(err)
		f.same(list.States, map[string]int64{"running": 1, "completed": 2, "failed": 1})
		f.same(list.Types, map[string]int64{"vanilla": 1, "partition": 1})
		f.same(list.Total, int64(2))
		f.same(list.Incomplete, true)
	}},
	{"an unknown order is refused", func(f *fixture) {
		_, err := f.s.Jobs(f.ctx, store.JobFilter{Operation: 1, Sort: "colour"})
		f.wants(err, store.ErrInvalid)
	}},
}

// logGallery puts events that differ in everything that filters examine, in two commits.
func logGallery(f *fixture) []store.Event {
	events := []store.Event{
		{Time: at(1), Type: "operation_started", Operation: 1, Tree: "main", Pool: "prod", Document: []byte("{}")},
		{Time: at(2), Type: "job_started", Operation: 1, Job: 1 << 63, Tree: "main", Pool: "prod", Node: "n1"},
		{Time: at(3), Type: "job_started", Operation: 2, Job: 8, Tree: "main", Pool: "test", Node: "n2"},
		{Time: at(4), Type: "job_aborted", Operation: 2, Job: 8, Tree: "gpu", Pool: "test", Node: "n2"},
		{Time: at(5), Type: "fair_share_info", Tree: "gpu"},
	}
	first := &store.Batch{Put: store.Rows{Events: events[:2:2]}}
	second := &store.Batch{Put: store.Rows{Events: events[2:]}}
	f.same(f.commit(first).LastEvent, int64(2))
	f.same(f.commit(second).LastEvent, int64(5))
	return events
}

func listsEvents(name string, filter store.EventFilter, want ...int64) check {
	return check{name, func(f *fixture) {
		logGallery(f)
		events, more, err := f.s.Events(f.ctx, filter)
		f.ok(err)
		var ids []int64
		for _, e := range events {
			ids = append(ids, e.ID)
		}
		f.same(ids, want)
		f.same(more, filter.Limit != 0)
	}}
}

// eventsThatPass is the obvious twin of Events: it looks at all events.
func eventsThatPass(log []store.Event, f store.EventFilter) (events []store.Event, more bool) {
	log = slices.Clone(log)
	if !f.OldestFirst {
		slices.Reverse(log)
	}
	for _, e := range log {
		switch {
		case f.Operation != 0 && e.Operation != f.Operation, f.Job != 0 && e.Job != f.Job, f.Node != "" && e.Node != f.Node, f.Pool != "" && e.Pool != f.Pool:
		case !f.From.IsZero() && e.Time.Before(f.From), !f.To.IsZero() && !e.Time.Before(f.To):
		case f.Cursor != 0 && f.OldestFirst && e.ID <= f.Cursor, f.Cursor != 0 && !f.OldestFirst && e.ID >= f.Cursor:
		case len(f.Types) > 0 && !slices.Contains(f.Types, e.Type):
		case len(events) == f.Limit:
			return events, true
		default:
			events = append(events, e)
		}
	}
	return events, false
}

func listsAudit(name string, filter store.AuditFilter, want ...int64) check {
	return check{name, func(f *fixture) {
		f.put(store.Rows{Audit: []store.AuditRecord{
			{Time: at(1), User: "ann", Command: "set", Object: "//sys/pools/prod/@weight", Before: []byte("1"), After: []byte("2"), Request: "r1"},
			{Time: at(2), User: "bob", Command: "create", Object: "//sys/pools/test", Request: "r2"},
			{Time: at(3), User: "ann", Command: "abort_operation", Object: "1-2-3-4", Request: "r3"},
		}})
		records, _, err := f.s.Audit(f.ctx, filter)
		f.ok(err)
		var ids []int64
		for _, r := range records {
			ids = append(ids, r.ID)
		}
		f.same(ids, want)
	}}
}

var logChecks = []check{
	{"events are numbered and come back as they were", func(f *fixture) {
		want := logGallery(f)
		events, more, err := f.s.Events(f.ctx, store.EventFilter{OldestFirst: true})
		f.ok(err)
		f.same(events, want)
		f.same(more, false)
		f.same(want[4].ID, int64(5))
		f.same(f.load().LastEvent, int64(5))
	}},
	listsEvents("all events, newest first", store.EventFilter{}, 5, 4, 3, 2, 1),
	listsEvents("events of types", store.EventFilter{Types: []string{"job_started", "job_aborted"}}, 4, 3, 2),
	listsEvents("events of an operation", store.EventFilter{Operation: 2}, 4, 3),
	listsEvents("events of a job", store.EventFilter{Job: 1 << 63}, 2),
	listsEvents("events of a pool", store.EventFilter{Pool: "test"}, 4, 3),
	listsEvents("events of a pool in a tree", store.EventFilter{Pool: "test", Tree: "gpu"}, 4),
	listsEvents("events of a node", store.EventFilter{Node: "n2", OldestFirst: true}, 3, 4),
	listsEvents("events between two times", store.EventFilter{From: at(2), To: at(4)}, 3, 2),
	listsEvents("events after a cursor", store.EventFilter{Cursor: 3}, 2, 1),
	listsEvents("events after a cursor, oldest first", store.EventFilter{Cursor: 3, OldestFirst: true}, 4, 5),
	listsEvents("a page of events", store.EventFilter{Limit: 2, Cursor: 5}, 4, 3),
	listsAudit("all audit records", store.AuditFilter{}, 3, 2, 1),
	listsAudit("audit records of a user", store.AuditFilter{User: "ann", OldestFirst: true}, 1, 3),
	listsAudit("audit records of a command", store.AuditFilter{Command: "create"}, 2),
	listsAudit("audit records of an object", store.AuditFilter{Object: "1-2-3-4"}, 3),
	listsAudit("audit records below a path", store.AuditFilter{Below: "//sys/pools"}, 2, 1),
	listsAudit("audit records of a request", store.AuditFilter{Request: "r2"}, 2),
	listsAudit("audit records between two times", store.AuditFilter{From: at(2), To: at(3)}, 2),
	{"an audit record comes back as it was", func(f *fixture) {
		record := store.AuditRecord{Time: at(1), User: "ann", Command: "set", Object: "//sys", Before: []byte("1"), After: []byte("2"), Request: "r1"}
		receipt := f.put(store.Rows{Audit: []store.AuditRecord{record}})
		f.same(receipt.LastAudit, int64(1))
		got, _, err := f.s.Audit(f.ctx, store.AuditFilter{})
		f.ok(err)
		record.ID = 1
		f.same(got, []store.AuditRecord{record})
	}},
	{"filters select the events that pass them, whatever commits they came in", func(f *fixture) {
		random := rand.New(rand.NewPCG(1, 14))
		pick := func(n int) int { return random.IntN(n) }
		var log []store.Event
		now := 0
		for range 30 {
			var rows store.Rows
			for range 1 + pick(60) {
				now += pick(20) - 3 // another leader's clock may be behind
				e := store.Event{Time: at(now), Type: []string{"job_started", "job_completed", "other"}[pick(3)], Operation: int32(pick(4))}
				if pick(4) > 0 {
					e.Job, e.Node = uint64(pick(200)), fmt.Sprint("n", pick(5))
				}
				if pick(4) > 0 {
					e.Tree, e.Pool = "main", fmt.Sprint("p", pick(5))
				}
				rows.Events = append(rows.Events, e)
			}
			f.put(rows)
			for _, e := range rows.Events {
				e.ID = int64(len(log) + 1)
				log = append(log, e)
			}
		}
		check := func() {
			for range 200 {
				filter := store.EventFilter{OldestFirst: pick(2) > 0, Limit: 1 + pick(200)}
				if pick(2) > 0 {
					filter.Operation = int32(pick(4))
				}
				if pick(4) == 0 {
					filter.Job = uint64(pick(200))
				}
				if pick(3) == 0 {
					filter.Node = fmt.Sprint("n", pick(6))
				}
				if pick(3) == 0 {
					filter.Pool = fmt.Sprint("p", pick(6))
				}
				if pick(3) == 0 {
					filter.From = at(pick(now + 1))
				}
				if pick(3) == 0 {
					filter.To = at(pick(now + 1))
				}
				if pick(3) == 0 {
					filter.Cursor = log[pick(len(log))].ID
				}
				if pick(4) == 0 {
					filter.Types = []string{"other"}
				}
				want, more := eventsThatPass(log, filter)
				events, rest, err := f.s.Events(f.ctx, filter)
				f.ok(err)
				f.same(events, want)
				f.same(rest, more)
			}
		}
		check()
		removed := f.retain(store.Policy{EventAge: time.Hour}, at(now/2).Add(time.Hour))
		kept := slices.DeleteFunc(slices.Clone(log), func(e store.Event) bool { return e.Time.Before(at(now / 2)) })
		f.same(removed, store.Removed{Events: int64(len(log) - len(kept))})
		log = kept
		check()
		var export bytes.Buffer
		f.ok(f.s.Export(f.ctx, &export))
		f.s = f.open(f.fresh(f.T))
		f.ok(f.s.Import(f.ctx, &export))
		check()
	}},
	{"pages of a long log have every event once", func(f *fixture) {
		var rows store.Rows
		for i := range 250 {
			rows.Events = append(rows.Events, store.Event{Time: at(i), Type: fmt.Sprint("t", i%3)})
		}
		f.put(rows)
		cursor, seen := int64(0), 0
		for more := true; more; {
			var events []store.Event
			var err error
			events, more, err = f.s.Events(f.ctx, store.EventFilter{Cursor: cursor, Limit: 40})
			f.ok(err)
			for _, e := range events {
				f.same(e.ID, int64(250-seen))
				seen++
			}
			cursor = events[len(events)-1].ID
		}
		f.same(seen, 250)
	}},
}
