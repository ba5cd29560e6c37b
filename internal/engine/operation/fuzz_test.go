package operation

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/internal/value/digest"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/test/expected"
)

// FuzzSpec reads anything as a specification: nothing panics, errors are lists of
// problems, and an accepted specification is stable and can be started.
func FuzzSpec(f *testing.F) {
	expected.Corpus(f)
	for _, file := range goodFiles(f) {
		f.Add([]byte(expected.Read(f, file)))
	}
	f.Add([]byte(`{"tasks": {"a": {"job_count": 3, "command": "x", "memory_reserve_factor": 0.3, "tmpfs_path": "."}}}`))
	f.Add([]byte("tasks: {a: {job_count: 10000000, command: x, memory_limit: 28GiB, cpu_limit: 1e9}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseSpec(data, ReadOptions{})
		if err != nil {
			var problems document.Problems
			if !errors.As(err, &problems) || len(problems) == 0 {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		checkReadsBack(t, s.Spec, document.ForPrograms)
		checkReadsBack(t, s.Spec, document.ForPeople)
		c := New(s.Spec, clock)
		if s.Spec.JobCount() <= 10_000 {
			if err := c.Verify(); err != nil {
				t.Fatal(err)
			}
		}
		if got := c.PendingJobCount(); got != s.Spec.JobCount() {
			t.Fatalf("%d of %d jobs wait", got, s.Spec.JobCount())
		}
		if !c.needed.IsNonNegative() || !c.needed.Dominates(c.MinNeeded()) {
			t.Fatalf("needed %v, at least %v", c.needed, c.MinNeeded())
		}
	})
}

func FuzzUpdate(f *testing.F) {
	base := mustSpec(f, smallest+"scheduling_options_per_pool_tree: {x: {pool: p}}")
	for _, seed := range []string{
		"weight: 2\npool: a", "annotations: {a: null}", "scheduling_options_per_pool_tree: {x: {pool: q, resource_limits: {cpu: 5}}, y: }",
		"max_failed_job_count: 0\nacl: []", "tasks: {}", "scheduling_options_per_pool_tree: [1]", "pool: {}", "5",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := notation.ParseYAML("", data)
		if err != nil {
			return
		}
		u, _, err := ReadUpdate(v, "")
		if err != nil {
			return
		}
		changed := base.With(u)
		if a, ok := changed.Annotations.Get(); !ok || isShort(a) {
			checkReadsBack(t, changed, document.ForPrograms)
		}
		if again := Changes(changed, changed.With(u)); len(again) > 0 {
			t.Fatalf("the second time changes %v", again)
		}
	})
}

// FuzzRestore reads anything as a snapshot: nothing panics, and an accepted
// snapshot is consistent.
func FuzzRestore(f *testing.F) {
	spec := mustSpec(f, "is_gang: true\n"+`tasks: {a: {job_count: 70, command: x}, b: {job_count: 2, command: x}}`)
	c := New(spec, clock)
	for _, step := range []Step{Register, Assign, Initialize, Prepare, Admit, Materialize} {
		c.Advance(step, clock)
	}
	for range 68 {
		job, _ := c.Schedule(0, everything)
		if job.Cookie%3 == 0 {
			c.JobCompleted(job.JobRef, clock)
		}
	}
	for cookie := range int32(6) { // two of them ended above
		usage := &Usage{Job: 7, UserMaxMemory: 300 << 20, Duration: time.Minute}
		c.JobEnded(JobRef{Cookie: cookie}, Outcome{State: EndAborted, Reason: AbortResourceOverdraft, Usage: usage}, clock)
	}
	text, err := json.Marshal(c.Snapshot())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(strings.ReplaceAll(string(text), `"next":68`, `"next":12`)))
	f.Add([]byte(`{"tasks":[{"name":"a","job_count":70,"next":70},{"name":"b","job_count":2}],"failing":true}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var s Snapshot
		if json.Unmarshal(data, &s) != nil {
			return
		}
		c, err := Restore(spec, s)
		if err != nil {
			return
		}
		c.Tick(clock)
		c.Schedule(0, everything)
		c.JobEnded(JobRef{Cookie: 2, Incarnation: c.Incarnation()}, Outcome{Usage: &Usage{UserMaxMemory: 1 << 28}}, clock)
		c.Alerts()
		for _, job := range []JobRef{{Task: 0, Cookie: 1, Incarnation: c.Incarnation()}, {Task: 1, Cookie: 1, Incarnation: c.Incarnation()}} {
			c.JobFailed(job, Failure{Node: "n"}, clock)
		}
		if err := c.Verify(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSnapshotsThatDoNotFitAreRefused(t *testing.T) {
	b := running(t, "tasks: {a: {job_count: 70}, b: {job_count: 1}}")
	for range 66 {
		b.schedule(0)
	}
	b.aborted(b.running[3], AbortPreemption)
	good := func() Snapshot { return b.Snapshot() }
	if _, err := Restore(b.Spec(), good()); err != nil {
		t.Fatal(err)
	}
	cases := map[string]func(s *Snapshot){
		"snapshot has 1 tasks, the specification 2":                               func(s *Snapshot) { s.Tasks = s.Tasks[:1] },
		`snapshot of task "x": it has 70 jobs; the specification has "a" with 70`: func(s *Snapshot) { s.Tasks[0].Name = "x" },
		`snapshot of task "a": it has 5 jobs; the specification has "a" with 70`:  func(s *Snapshot) { s.Tasks[0].JobCount = 5 },
		`snapshot of task "a": job 71 of 70 is next`:                              func(s *Snapshot) { s.Tasks[0].Next = 71 },
		`snapshot of task "a": running: a set has job 63, beyond 4`:               func(s *Snapshot) { s.Tasks[0].Next = 4 },
		`snapshot of task "a": running: a set of 3 bytes for 70 jobs`:             func(s *Snapshot) { s.Tasks[0].Running = make([]byte, 3) },
		`snapshot of task "a": returned: a set of 24 bytes for 70 jobs`:           func(s *Snapshot) { s.Tasks[0].Returned = make([]byte, 24) },
		`snapshot: task "a": job 3 is pending and running`:                        func(s *Snapshot) { s.Tasks[0].Running[0] = 0xff },
		`snapshot of task "a": a retry of job -1`: func(s *Snapshot) {
			s.Tasks[0].Memory = &MemorySnapshot{Retries: []RetrySnapshot{{Cookie: -1}}}
		},
		`snapshot of task "a": a retry of job 66`: func(s *Snapshot) {
			s.Tasks[0].Memory = &MemorySnapshot{Retries: []RetrySnapshot{{Cookie: 66}}}
		},
		`snapshot of task "a": retry of job 1: none of its processes has overdrafted`: func(s *Snapshot) {
			s.Tasks[0].Memory = &MemorySnapshot{Retries: []RetrySnapshot{{Cookie: 1}}}
		},
		`snapshot of task "a": retry of job 1: status once with factor -1`: func(s *Snapshot) {
			s.Tasks[0].Memory = &MemorySnapshot{Retries: []RetrySnapshot{{Cookie: 1, Retry: Retry{User: Raise{OverdraftedOnce, -1}}}}}
		},
		`snapshot of task "a": memory of job 70`: func(s *Snapshot) {
			s.Tasks[0].Memory = &MemorySnapshot{Started: []StartedSnapshot{{Cookie: 70, UserFactor: 1, ProxyFactor: 1}}}
		},
		`snapshot of task "a": memory of job 7`: func(s *Snapshot) {
			s.Tasks[0].Memory = &MemorySnapshot{Started: []StartedSnapshot{{Cookie: 7, UserFactor: 1}}}
		},
		`snapshot of task "a": digest: bucket 9 has -1 samples`: func(s *Snapshot) {
			s.Tasks[0].Memory = &MemorySnapshot{User: &digest.Snapshot{LowerBound: 0.5, UpperBound: 1, Buckets: [][2]int64{{9, -1}}}}
		},
		`snapshot of task "a": path of a statistic "a//b" must be words separated by slashes`: func(s *Snapshot) {
			s.Tasks[0].Memory = &MemorySnapshot{Statistics: []StatisticSnapshot{{Path: "a//b"}}}
		},
		`snapshot of task "a": statistic a after b`: func(s *Snapshot) {
			s.Tasks[0].Memory = &MemorySnapshot{Statistics: []StatisticSnapshot{{Path: "b"}, {Path: "a"}}}
		},
		`snapshot of task "a": statistic a has {Count:-1 Sum:0 Min:0 Max:0}`: func(s *Snapshot) {
			s.Tasks[0].Memory = &MemorySnapshot{Statistics: []StatisticSnapshot{{Path: "a", Ended: map[EndState]Summary{EndFailed: {Count: -1}}}}}
		},
		"snapshot: memory of jobs: user_job_memory_reserve_quantile is 2, must be between 0 and 1": func(s *Snapshot) {
			s.Memory = new(MemoryConfig)
			*s.Memory = DefaultMemoryConfig()
			s.Memory.UserQuantile = 2
		},
		"snapshot of a failing operation without an error":         func(s *Snapshot) { s.Failing = true },
		"snapshot: the operation is aborting with 65 running jobs": func(s *Snapshot) { s.Life.State = Aborting },
	}
	for want, spoil := range cases {
		s := good()
		spoil(&s)
		if _, err := Restore(b.Spec(), s); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
