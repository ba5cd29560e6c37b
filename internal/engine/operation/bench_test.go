package operation

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/value/cpumonitor"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/test/expected"
)

const million = 1_000_000

func manyJobs(t testing.TB, count int, more string) *bench {
	t.Helper()
	return running(t, fmt.Sprintf("tasks: {a: {job_count: %d, memory_limit: 4GiB}}\n%s", count, more))
}

// BenchmarkScheduleAndComplete measures the life of one job in an operation with a
// million jobs, of which ten thousand run at a time.
func BenchmarkScheduleAndComplete(b *testing.B) {
	c := manyJobs(b, million, "")
	jobs := make([]JobRef, 0, 10_000)
	start := func() {
		job, block := c.Schedule(0, everything)
		if block != NotBlocked {
			b.Fatal(block)
		}
		jobs = append(jobs, job.JobRef)
	}
	refill := func() {
		c = manyJobs(b, million, "")
		jobs = jobs[:0]
		for range cap(jobs) {
			start()
		}
	}
	refill()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if c.PendingJobCount() == 0 {
			b.StopTimer()
			refill()
			b.StartTimer()
		}
		job, _ := c.Schedule(0, everything)
		if _, err := c.JobCompleted(jobs[i], clock); err != nil {
			b.Fatal(err)
		}
		jobs[i] = job.JobRef
		i = (i + 1) % len(jobs)
	}
}

// BenchmarkScheduleAndAbort returns jobs in an order that is bad for searching a
// bitmap.
func BenchmarkScheduleAndAbort(b *testing.B) {
	c := manyJobs(b, million, "")
	jobs := make([]JobRef, million)
	for i := range jobs {
		job, _ := c.Schedule(0, everything)
		jobs[i] = job.JobRef
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i = (i + 999_983) % million
		if _, err := c.JobAborted(jobs[i], AbortPreemption, true, clock); err != nil {
			b.Fatal(err)
		}
		if job, _ := c.Schedule(0, everything); job.JobRef != jobs[i] {
			b.Fatalf("%+v, want %+v", job, jobs[i])
		}
	}
}

// BenchmarkScheduleAndLearn is BenchmarkScheduleAndComplete with reported usage,
// which updates two digests and twenty statistics.
func BenchmarkScheduleAndLearn(b *testing.B) {
	config := DefaultMemoryConfig()
	start := func() *bench { return configured(b, "tasks: {a: {job_count: 1000000, memory_limit: 4GiB}}", config) }
	c := start()
	usage := &Usage{Duration: time.Minute, ProxyMaxMemory: 30 << 20, CPU: &cpumonitor.Statistics{SmoothedUsageX100: 100}}
	b.ReportAllocs()
	i := int64(0)
	for b.Loop() {
		if c.PendingJobCount() == 0 {
			b.StopTimer()
			c = start()
			b.StartTimer()
		}
		job, _ := c.Schedule(0, everything)
		i++
		usage.UserMaxMemory = 1<<30 + i%1000<<20
		if _, err := c.JobEnded(job.JobRef, Outcome{Usage: usage}, clock); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkClone(b *testing.B) {
	for _, count := range []int{100, million} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			c := manyJobs(b, count, "")
			for range count / 2 {
				c.Schedule(0, everything)
			}
			b.ReportAllocs()
			for b.Loop() {
				c.Clone()
			}
		})
	}
}

func BenchmarkSnapshot(b *testing.B) {
	c := manyJobs(b, million, "")
	for range million / 2 {
		c.Schedule(0, everything)
	}
	b.ReportAllocs()
	var size int
	for b.Loop() {
		text, err := json.Marshal(c.Snapshot())
		if err != nil {
			b.Fatal(err)
		}
		size = len(text)
	}
	b.ReportMetric(float64(size), "bytes")
}

func BenchmarkRead(b *testing.B) {
	v, err := notation.ParseYAML("", []byte(expected.Read(b, "testdata/seeds.good.yaml")))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Read(v, ReadOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAMillionJobsTakeLittleMemoryAndNoAllocations(t *testing.T) {
	before := heap()
	c := manyJobs(t, million, "max_failed_job_count: 10000")
	jobs := make([]JobRef, 0, 1000)
	for range 1000 {
		job, _ := c.Schedule(0, everything)
		jobs = append(jobs, job.JobRef)
	}
	if used := heap() - before; used > 400<<10 {
		t.Errorf("%d bytes for a million jobs", used)
	}
	if _, err := c.JobAborted(jobs[0], AbortPreemption, true, clock); err != nil { // allocates the bitmap of returned jobs
		t.Fatal(err)
	}
	jobs = jobs[1:]
	allocations := testing.AllocsPerRun(500, func() {
		job, _ := c.Schedule(0, everything)
		if _, err := c.JobAborted(job.JobRef, AbortPreemption, true, clock); err != nil {
			t.Fatal(err)
		}
		job, _ = c.Schedule(0, everything)
		if _, err := c.JobFailed(job.JobRef, Failure{}, clock); err != nil {
			t.Fatal(err)
		}
		if _, err := c.JobCompleted(jobs[0], clock); err != nil {
			t.Fatal(err)
		}
		jobs = jobs[1:]
		if c.Needed().IsZero() || c.MinNeeded().IsZero() || len(c.Groups()) != 1 {
			t.Fatal("nothing is needed")
		}
	})
	if allocations > 0 {
		t.Errorf("%v allocations for three jobs", allocations)
	}
	runtime.KeepAlive(c)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
