package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/control/store"
	"github.com/weirhq/weir/internal/control/store/history"
	"github.com/weirhq/weir/test/expected"
)

// benchJob returns a finished job with documents of typical size.
func benchJob(n int) store.Job {
	start := time.Unix(1_800_000_000+int64(n), 0)
	return store.Job{
		Number: uint64(n), Operation: int32(n/1000 + 1), Sequence: int64(n%1000 + 1), Task: "map", Cookie: int32(n % 1000), Type: "vanilla",
		Node: fmt.Sprintf("node-%04d.cluster.example:9012", n%2000), Tree: "default", State: "completed", StartTime: start, FinishTime: start.Add(time.Minute),
		Resources:  []byte(`{"cpu":1.0,"memory":536870912,"user_slots":1}`),
		Statistics: []byte(`{"user_job":{"cpu":{"user":58123,"system":312},"memory":{"max":412090368,"reserved":483183820},"max_memory":412090368},"time":{"total":60012,"exec":59880}}`),
	}
}

// benchBatch returns a typical group commit of finished jobs: the jobs and an event for each.
func benchBatch(from, size int) *store.Batch {
	batch := &store.Batch{}
	for n := from; n < from+size; n++ {
		j := benchJob(n)
		batch.Put.Jobs = append(batch.Put.Jobs, j)
		batch.Put.Events = append(batch.Put.Events, store.Event{
			Time: j.FinishTime, Type: "job_completed", Operation: j.Operation, Job: j.Number, Tree: j.Tree, Node: j.Node,
			Pool: fmt.Sprintf("pool-%d", j.Operation%200), Document: []byte(`{"reason":"none"}`),
		})
	}
	return batch
}

func BenchmarkCommit(b *testing.B) {
	for _, e := range engines {
		for _, size := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("%s/jobs=%d", e.name, size), func(b *testing.B) {
				s := open(b, e.fresh(b))
				lease := lead(b, s)
				next := 1
				for b.Loop() {
					if _, err := s.Commit(b.Context(), lease, benchBatch(next, size)); err != nil {
						b.Fatal(err)
					}
					next += size
				}
				seconds := b.Elapsed().Seconds()
				b.ReportMetric(float64(b.N)/seconds, "commits/s")
				b.ReportMetric(float64(b.N*size)/seconds, "jobs/s")
			})
		}
	}
}

// BenchmarkLifeOfAJob measures what jobs cost the store from their start to their end: a commit with
// running jobs, and one that ends those that started four commits before, with an event for each.
func BenchmarkLifeOfAJob(b *testing.B) {
	const size, pause = 256, 4
	for _, e := range engines {
		b.Run(e.name, func(b *testing.B) {
			s := open(b, e.fresh(b))
			lease := lead(b, s)
			next, spent := 1, expected.CPUTime()
			for b.Loop() {
				batch := &store.Batch{}
				if next > pause*size {
					batch = benchBatch(next-pause*size, size)
				}
				for n := next; n < next+size; n++ {
					j := benchJob(n)
					j.Sequence, j.State, j.FinishTime, j.Statistics = 0, "running", time.Time{}, nil
					batch.Put.Jobs = append(batch.Put.Jobs, j)
				}
				if _, err := s.Commit(b.Context(), lease, batch); err != nil {
					b.Fatal(err)
				}
				next += size
			}
			b.ReportMetric(float64((expected.CPUTime()-spent).Microseconds())/float64(next-1), "cpu-us/job")
		})
	}
}

func BenchmarkBytesOfAJob(b *testing.B) {
	for _, e := range engines {
		b.Run(e.name, func(b *testing.B) {
			s := open(b, e.fresh(b))
			lease := lead(b, s)
			before, err := s.Size(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			const jobs = 20000
			for range b.N {
				for n := 1; n < jobs; n += 1000 {
					batch := benchBatch(n, 1000)
					batch.Put.Events = nil
					if _, err := s.Commit(b.Context(), lease, batch); err != nil {
						b.Fatal(err)
					}
				}
			}
			after, err := s.Size(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(after-before)/jobs, "bytes/job")
			b.ReportMetric(float64(len(benchJob(1).Statistics)+len(benchJob(1).Resources)), "of-them-documents")
		})
	}
}

// BenchmarkLoad measures a takeover with 5,000 operations and 100,000 running jobs.
func BenchmarkLoad(b *testing.B) {
	for _, e := range engines {
		b.Run(e.name, func(b *testing.B) {
			s := open(b, e.fresh(b))
			lease := lead(b, s)
			for o := int32(1); o <= 5000; o += 500 {
				batch := &store.Batch{}
				for n := o; n < o+500; n++ {
					batch.Put.Operations = append(batch.Put.Operations, store.Operation{Number: n, ID: fmt.Sprint("id", n), State: "running", StartTime: time.Unix(int64(n), 0)})
					batch.Put.OperationSpecs = append(batch.Put.OperationSpecs, store.OperationSpec{Operation: n, Provided: make([]byte, 1000), Resulting: make([]byte, 1500)})
					for k := range 20 {
						j := benchJob(int(n)*20 + k)
						j.Operation, j.Sequence, j.FinishTime, j.State, j.Statistics = n, 0, time.Time{}, "running", nil
						batch.Put.Jobs = append(batch.Put.Jobs, j)
					}
				}
				if _, err := s.Commit(b.Context(), lease, batch); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				state, err := s.Load(b.Context())
				if err != nil || len(state.Rows.Jobs) != 100000 {
					b.Fatal(len(state.Rows.Jobs), err)
				}
			}
		})
	}
}

// BenchmarkListOperations measures a page and its counters with 100,000 archived operations.
func BenchmarkListOperations(b *testing.B) {
	for _, e := range engines {
		b.Run(e.name, func(b *testing.B) {
			s := open(b, e.fresh(b))
			lease := lead(b, s)
			for from := 1; from <= 100000; from += 5000 {
				batch := &store.Batch{}
				for n := from; n < from+5000; n++ {
					at := time.Unix(1_800_000_000+int64(n), 0)
					batch.Put.Operations = append(batch.Put.Operations, store.Operation{
						Number: int32(n), ID: fmt.Sprintf("%08x-1234-5678-%08x", n*7919, n), Type: "vanilla", User: fmt.Sprint("user", n%50),
						State: []string{"completed", "failed", "aborted"}[n%3], Title: fmt.Sprint("nightly report ", n%300),
						Pools: []store.TreePool{{Tree: "default", Pool: fmt.Sprint("pool", n%200)}}, StartTime: at, FinishTime: at.Add(time.Hour),
						BriefSpec: make([]byte, 300), RuntimeParameters: make([]byte, 300), Events: make([]byte, 400),
					})
				}
				if _, err := s.Commit(b.Context(), lease, batch); err != nil {
					b.Fatal(err)
				}
			}
			filters := map[string]store.OperationFilter{
				"newest": {}, "user": {User: "user7"}, "rare_pool": {Pool: "pool77", User: "user1"}, "text": {Text: "report 299"},
			}
			for _, name := range []string{"newest", "user", "rare_pool", "text"} {
				b.Run("page/"+name, func(b *testing.B) {
					for b.Loop() {
						if _, err := s.Operations(b.Context(), filters[name]); err != nil {
							b.Fatal(err)
						}
					}
				})
				b.Run("counters/"+name, func(b *testing.B) {
					for b.Loop() {
						if _, err := s.CountOperations(b.Context(), filters[name]); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		})
	}
}

// chartBatch holds, up to a time, an hour of seconds and a day of minutes of one busy pool with
// 60 series, half of which are noise.
var chartBatch = sync.OnceValues(func() (*store.Batch, time.Time) {
	recorder := history.NewRecorder()
	begin := time.Unix(1_800_000_000, 0).UTC().Truncate(24 * time.Hour)
	values := make([]float64, 60)
	batch := &store.Batch{}
	for n := range values {
		batch.Put.HistorySeries = append(batch.Put.HistorySeries, store.HistorySeries{Number: int32(n), Resource: fmt.Sprint("r", n/12), Name: fmt.Sprint("s", n%12)})
	}
	now := begin
	for second := 0; second < 86400; {
		for n := range values {
			if values[n] = float64(n); n%2 == 0 {
				values[n] = float64((second*(n+3))%997) / 7
			}
		}
		now = begin.Add(time.Duration(second) * time.Second)
		recorder.Record(now, "default", "busy", values)
		if second >= 82800 {
			second++
		} else {
			second += 60
		}
	}
	batch.PutHistory(recorder.Flush(now))
	return batch, now.Add(time.Second)
})

func chartStore(t testing.TB, fresh func(testing.TB) string) (*store.Store, time.Time) {
	t.Helper()
	s := open(t, fresh(t))
	batch, now := chartBatch()
	if _, err := s.Commit(t.Context(), lead(t, s), batch); err != nil {
		t.Fatal(err)
	}
	return s, now
}

func chart(t testing.TB, s *store.Store, level history.Level, from, to time.Time) int {
	t.Helper()
	lines, err := s.History(t.Context(), store.HistoryQuery{Tree: "default", Pool: "busy", Level: level, Resource: "r0", From: from, To: to})
	if err != nil {
		t.Fatal(err)
	}
	points := 0
	for _, l := range lines {
		points += len(l.Points)
	}
	return points
}

func BenchmarkChart(b *testing.B) {
	for _, e := range engines {
		s, now := chartStore(b, e.fresh)
		for _, level := range []history.Level{history.Seconds, history.Minutes} {
			b.Run(fmt.Sprintf("%s/%v", e.name, level), func(b *testing.B) {
				for b.Loop() {
					chart(b, s, level, now.Add(-level.Keep()), now)
				}
			})
		}
	}
}
