package storetest

import (
	"slices"
	"time"

	"github.com/weirhq/weir/internal/control/store"
)

func finished(seconds int) func(*store.Operation) {
	return func(o *store.Operation) { o.State, o.FinishTime = "completed", at(seconds) }
}

var operationChecks = []check{
	{"a number belongs to one id", func(f *fixture) {
		f.put(store.Rows{Operations: []store.Operation{operation(1)}})
		f.refuses(store.Rows{Operations: []store.Operation{operation(1, func(o *store.Operation) { o.ID = "other" })}, Users: []store.User{{Name: "ann"}}}, store.ErrConflict)
		f.same(f.load().Rows, store.Rows{Operations: []store.Operation{operation(1)}})
	}},
	{"an id belongs to one number", func(f *fixture) {
		f.put(store.Rows{Operations: []store.Operation{operation(1)}})
		f.refuses(store.Rows{Operations: []store.Operation{operation(2, func(o *store.Operation) { o.ID = operation(1).ID })}}, store.ErrConflict)
		f.same(f.load().LastOperation, int32(1))
	}},
	{"a number must be positive and an id is needed", func(f *fixture) {
		f.refuses(store.Rows{Operations: []store.Operation{operation(0)}}, store.ErrInvalid)
		f.refuses(store.Rows{Operations: []store.Operation{operation(1, func(o *store.Operation) { o.ID = "" })}}, store.ErrInvalid)
	}},
	{"the greatest number is remembered after its operation is gone", func(f *fixture) {
		f.put(store.Rows{Operations: []store.Operation{operation(5), operation(9), operation(2)}})
		f.delete(store.Rows{Operations: []store.Operation{{Number: 9}}})
		f.put(store.Rows{Operations: []store.Operation{operation(3)}})
		f.same(f.load().LastOperation, int32(9))
	}},
	{"deleting an operation deletes all that belongs to it", func(f *fixture) {
		f.put(everything())
		f.put(store.Rows{JobOutputs: []store.JobOutput{{Job: 1<<63 + 5, Kind: "stderr", Operation: 7, Data: []byte("x")}}})
		f.delete(store.Rows{Operations: []store.Operation{{Number: 7}}})
		rows := f.load().Rows
		f.same(len(rows.Operations)+len(rows.OperationSpecs)+len(rows.OperationProgress)+len(rows.ControllerSnapshots)+len(rows.Jobs), 0)
		_, err := f.s.OperationSpec(f.ctx, 7)
		f.wants(err, store.ErrNotFound)
		_, err = f.s.Job(f.ctx, 1<<63+5)
		f.wants(err, store.ErrNotFound)
		_, err = f.s.JobOutput(f.ctx, 1<<63+5, "stderr")
		f.wants(err, store.ErrNotFound)
	}},
	{"a finished operation is in the archive and not loaded", func(f *fixture) {
		f.put(everything())
		done := everything().Operations[0]
		done.FinishTime, done.State = at(100), "failed"
		f.put(store.Rows{Operations: []store.Operation{done}})
		rows := f.load().Rows
		f.same(len(rows.Operations)+len(rows.OperationSpecs)+len(rows.OperationProgress)+len(rows.ControllerSnapshots)+len(rows.Jobs), 0)
		got, err := f.s.OperationByID(f.ctx, "1-2-3-4")
		f.ok(err)
		f.same(got, done)
		got, err = f.s.OperationByNumber(f.ctx, 7)
		f.ok(err)
		f.same(got, done)
		spec, err := f.s.OperationSpec(f.ctx, 7)
		f.ok(err)
		f.same(spec, everything().OperationSpecs[0])
		progress, err := f.s.OperationProgress(f.ctx, 7)
		f.ok(err)
		f.same(progress, everything().OperationProgress[0])
	}},
	{"an alias means the last operation that has it", func(f *fixture) {
		alias := func(o *store.Operation) { o.Alias = "*a" }
		f.put(store.Rows{Operations: []store.Operation{operation(1, alias), operation(2, alias, finished(9)), operation(3)}})
		got, err := f.s.OperationByAlias(f.ctx, "*a")
		f.ok(err)
		f.same(got.Number, int32(2))
		_, err = f.s.OperationByAlias(f.ctx, "")
		f.wants(err, store.ErrNotFound)
	}},
	{"an unknown operation is not found", func(f *fixture) {
		_, err := f.s.OperationByID(f.ctx, "no")
		f.wants(err, store.ErrNotFound)
		_, err = f.s.OperationProgress(f.ctx, 1)
		f.wants(err, store.ErrNotFound)
	}},
	{"the progress of several operations is read at once", func(f *fixture) {
		f.put(store.Rows{OperationProgress: []store.OperationProgress{{Operation: 1, Brief: []byte("1")}, {Operation: 3, Brief: []byte("3")}}})
		got, err := f.s.OperationProgressOf(f.ctx, []int32{3, 2, 1})
		f.ok(err)
		f.same(got, []store.OperationProgress{{Operation: 1, Brief: []byte("1")}, {Operation: 3, Brief: []byte("3")}})
		got, err = f.s.OperationProgressOf(f.ctx, nil)
		f.ok(err)
		f.same(len(got), 0)
	}},
	{"pools are sorted by tree, and names with a line break are refused", func(f *fixture) {
		f.put(store.Rows{Operations: []store.Operation{operation(1, func(o *store.Operation) {
			o.Pools = []store.TreePool{{Tree: "b", Pool: "y"}, {Tree: "a", Pool: "x"}}
		})}})
		f.same(f.load().Rows.Operations[0].Pools, []store.TreePool{{Tree: "a", Pool: "x"}, {Tree: "b", Pool: "y"}})
		f.refuses(store.Rows{Operations: []store.Operation{operation(2, func(o *store.Operation) {
			o.Pools = []store.TreePool{{Tree: "b", Pool: "y\n"}}
		})}}, store.ErrInvalid)
	}},
}

var jobChecks = []check{
	{"a finished job is put once", func(f *fixture) {
		f.put(store.Rows{Operations: []store.Operation{operation(1)}})
		f.same(f.put(store.Rows{Jobs: []store.Job{job(10, 1, 1)}}).Duplicates, []uint64(nil))
		again := job(10, 1, 2, func(j *store.Job) { j.State, j.Error = "failed", []byte("other") })
		receipt := f.put(store.Rows{Jobs: []store.Job{again, job(11, 1, 2)}})
		f.same(receipt.Duplicates, []uint64{10})
		f.same(f.load().Rows.Jobs, []store.Job{job(10, 1, 1), job(11, 1, 2)})
	}},
	{"a running job changes until it has finished", func(f *fixture) {
		f.put(store.Rows{Operations: []store.Operation{operation(1)}})
		f.put(store.Rows{Jobs: []store.Job{job(10, 1, 0)}})
		moved := job(10, 1, 0, func(j *store.Job) { j.State = "aborting" })
		f.same(len(f.put(store.Rows{Jobs: []store.Job{moved}}).Duplicates), 0)
		f.same(f.load().Rows.Jobs, []store.Job{moved})
		f.same(len(f.put(store.Rows{Jobs: []store.Job{job(10, 1, 1)}}).Duplicates), 0)
		f.same(f.load().Rows.Jobs, []store.Job{job(10, 1, 1)})
	}},
	{"a finished job does not become running again", func(f *fixture) {
		f.put(store.Rows{Operations: []store.Operation{operation(1)}, Jobs: []store.Job{job(10, 1, 1)}})
		f.same(f.put(store.Rows{Jobs: []store.Job{job(10, 1, 0)}}).Duplicates, []uint64{10})
		f.same(f.load().Rows.Jobs, []store.Job{job(10, 1, 1)})
	}},
	{"of two results in one batch the first counts", func(f *fixture) {
		f.put(store.Rows{Operations: []store.Operation{operation(1)}})
		failed := job(10, 1, 2, func(j *store.Job) { j.State = "failed" })
		receipt := f.put(store.Rows{Jobs: []store.Job{job(10, 1, 0), job(10, 1, 1), failed}})
		f.same(receipt.Duplicates, []uint64{10})
		f.same(f.load().Rows.Jobs, []store.Job{job(10, 1, 1)})
	}},
	{"great numbers are duplicates too", func(f *fixture) {
		f.put(store.Rows{Jobs: []store.Job{job(1<<63+1, 1, 1), job(1<<64-1, 1, 2)}})
		f.same(f.put(store.Rows{Jobs: []store.Job{job(1<<64-1, 1, 2)}}).Duplicates, []uint64{1<<64 - 1})
	}},
	{"of many jobs in a batch, exactly those that finished before are duplicates", func(f *fixture) {
		f.put(store.Rows{Operations: []store.Operation{operation(1)}, Jobs: []store.Job{job(7, 1, 1), job(60, 1, 2), job(61, 1, 0)}})
		var rows store.Rows
		for n := range uint64(100) {
			rows.Jobs = append(rows.Jobs, job(n+1, 1, int64(n)+10))
		}
		rows.Events = []store.Event{{Type: "t"}}
		receipt := f.put(rows)
		slices.Sort(receipt.Duplicates)
		f.same(receipt.Duplicates, []uint64{7, 60})
		f.same(receipt.LastEvent, int64(1))
		finished, err := f.s.FinishedJobs(f.ctx, 1, 0, 1000)
		f.ok(err)
		f.same(len(finished), 100)
		f.same(finished[0].Number, uint64(7))
		f.same(finished[1].Number, uint64(60))
	}},
	{"a finished job needs a sequence, a running one has none", func(f *fixture) {
		f.refuses(store.Rows{Jobs: []store.Job{job(1, 1, 0, func(j *store.Job) { j.FinishTime = at(1) })}}, store.ErrInvalid)
		f.refuses(store.Rows{Jobs: []store.Job{job(1, 1, 0, func(j *store.Job) { j.Sequence = 3 })}}, store.ErrInvalid)
		f.refuses(store.Rows{Jobs: []store.Job{job(1, 0, 1)}}, store.ErrInvalid)
	}},
	{"running jobs and those after the snapshot are loaded, in order", func(f *fixture) {
		f.put(store.Rows{
			Operations:          []store.Operation{operation(1), operation(2), operation(3, finished(50))},
			ControllerSnapshots: []store.ControllerSnapshot{{Operation: 1, Position: 2}, {Operation: 3, Position: 0}},
			Jobs: []store.Job{
				job(11, 1, 1), job(12, 1, 2), job(14, 1, 4), job(13, 1, 3), job(15, 1, 0),
				job(22, 2, 2), job(21, 2, 1), job(31, 3, 1), job(32, 3, 0),
			},
		})
		f.same(jobNumbers(f.load().Rows.Jobs), []uint64{15, 13, 14, 21, 22})
	}},
	{"finished jobs are replayed by sequence, page by page", func(f *fixture) {
		f.put(store.Rows{Jobs: []store.Job{job(5, 1, 3), job(4, 1, 1), job(3, 1, 2), job(2, 1, 0), job(9, 2, 1)}})
		page, err := f.s.FinishedJobs(f.ctx, 1, 0, 2)
		f.ok(err)
		f.same(jobNumbers(page), []uint64{4, 3})
		page, err = f.s.FinishedJobs(f.ctx, 1, page[1].Sequence, 2)
		f.ok(err)
		f.same(jobNumbers(page), []uint64{5})
	}},
	{"of some jobs the finished ones are named, however many are asked for", func(f *fixture) {
		f.put(store.Rows{Jobs: []store.Job{job(1, 1, 1), job(2, 1, 0), job(1<<63, 1, 2)}})
		asked := []uint64{1, 2, 1 << 63}
		for n := range uint64(1200) {
			asked = append(asked, 1000+n)
		}
		ended, err := f.s.EndedJobs(f.ctx, asked)
		f.ok(err)
		f.same(ended, map[uint64]bool{1: true, 1 << 63: true})
	}},
	{"output is kept by kind", func(f *fixture) {
		stderr := store.JobOutput{Job: 1<<63 + 1, Kind: "stderr", Operation: 1, Written: at(1), Data: []byte("oh\x00no")}
		f.put(store.Rows{JobOutputs: []store.JobOutput{stderr, {Job: 1<<63 + 1, Kind: "fail_context", Operation: 1, Data: []byte("c")}}})
		got, err := f.s.JobOutput(f.ctx, 1<<63+1, "stderr")
		f.ok(err)
		f.same(got, stderr)
		_, err = f.s.JobOutput(f.ctx, 2, "stderr")
		f.wants(err, store.ErrNotFound)
	}},
	{"a mutation is found until it is removed", func(f *fixture) {
		f.put(everything())
		got, err := f.s.Mutation(f.ctx, "m-1")
		f.ok(err)
		f.same(got, everything().Mutations[0])
		f.delete(store.Rows{Mutations: []store.Mutation{{ID: "m-1"}}})
		_, err = f.s.Mutation(f.ctx, "m-1")
		f.wants(err, store.ErrNotFound)
	}},
}

// hour is longer than any test.
const hour = time.Hour
