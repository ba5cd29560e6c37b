package cgroup

import (
	"path/filepath"
	"testing"
	"time"
)

func TestUsageIsWhatTheReferenceProgramUsed(t *testing.T) {
	drivers(t, func(t *testing.T, d Driver) {
		c := create(t, d, "usage", Limits{CPU: CPU{Guarantee: 1}})
		file := filepath.Join(t.TempDir(), "mapped")
		r := start(t, d, c, "alloc=268435456", "say=allocated", "wait")
		r.expect(t, "allocated")
		u := settled(t, c, func(u Usage) bool { return isNear(u.Anonymous, 256*mib, 0.05) })
		near(t, "anonymous memory", float64(u.Anonymous), 256*mib, 0.05)

		m := start(t, d, c, "map="+file+":134217728", "burn=1s", "say=mapped", "wait")
		m.expect(t, "mapped")
		u = settled(t, c, func(u Usage) bool { return isNear(u.Mapped, 128*mib, 0.08) })
		near(t, "mapped files", float64(u.Mapped), 128*mib, 0.08)
		if u.Current < u.Anonymous || u.Peak < u.Current {
			t.Errorf("current %d, anonymous %d, peak %d", u.Current, u.Anonymous, u.Peak)
		}
		r.end(t)
		m.end(t)
		if c.Mode() == ProcessLimits {
			return // the times of ended processes are lost
		}
		u = settled(t, c, func(u Usage) bool { return u.Anonymous <= 4*mib })
		if u.Anonymous > 4*mib || u.Peak < 256*mib {
			t.Errorf("after the end: anonymous %d, peak %d", u.Anonymous, u.Peak)
		}
		near(t, "CPU time", u.CPUTime.Seconds(), (r.used + m.used).Seconds(), 0.05)
		// The program used one second. The kernel samples how much of it was user time.
		if u.UserTime+u.SystemTime != u.CPUTime || u.UserTime < 700*time.Millisecond {
			t.Errorf("user %v + system %v, total %v", u.UserTime, u.SystemTime, u.CPUTime)
		}
	})
}

func TestAGlanceReadsNothingOfAJobThatDoesNotRun(t *testing.T) {
	d := kernel(t)
	c := create(t, d, "glance", Limits{})
	r := startCommand(t, d, c, "/bin/cat")
	stir := func() {
		t.Helper()
		if _, err := r.stdin.WriteString("here\n"); err != nil {
			t.Fatal(err)
		}
		r.expect(t, "here")
	}
	glance := func(last Usage) Usage {
		t.Helper()
		u, err := c.Glance(last)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	stir()
	u := glance(Usage{})
	for u.CPUTime == 0 { // the kernel updates the time when a process waits, and this one may not wait yet
		u = glance(u)
	}
	if u.CPUTime <= 0 || u.UserTime+u.SystemTime != u.CPUTime {
		t.Errorf("%+v", u)
	}
	still := &c.(*kernelContainer).still
	for settled := false; !settled; { // it may not wait for its input again yet
		still.since = still.since.Add(-settling) // pretend that this much time has passed
		u = glance(u)
		u.Anonymous = 1 // a value that the kernel never reports
		settled = glance(u) == u
	}
	stir()
	got := glance(u)
	for got.CPUTime == u.CPUTime { // it has answered, but may not wait again yet
		got = glance(u)
	}
	if got.CPUTime < u.CPUTime || got.Anonymous == 1 {
		t.Errorf("a process has run since %+v, but now it is %+v", u, got)
	}
	r.end(t)
}

func TestMemoryIsReadAgainUntilTheKernelHasAddedUp(t *testing.T) {
	at := time.Date(2024, 3, 1, 12, 0, 0, 0, time.UTC)
	var s stillness
	for i, k := range []struct {
		after     time.Duration
		cpu       time.Duration
		unchanged bool
	}{
		{0, 5, false}, {time.Second, 5, false}, {time.Second, 5, false}, {time.Second, 5, false}, // this one reads for the last time
		{time.Second, 5, true}, {time.Hour, 5, true},
		{time.Second, 6, false}, {time.Second, 6, false}, {time.Hour, 6, false}, {time.Second, 6, true}, {time.Second, 7, false},
	} {
		at = at.Add(k.after)
		if got := s.observe(at, k.cpu); got != k.unchanged {
			t.Errorf("look %d: unchanged is %v", i, got)
		}
	}
}
